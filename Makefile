# `make help` lists the targets. Each of them installs what it needs into .venv first.
SHELL := bash
PRESET ?= pocket
# The data of a parser are words and trees; that of the other presets is English and German.
DATA ?= $(if $(filter parsing%,$(PRESET)),pocket-trees,pocket)
SOURCE ?= $(if $(filter parsing%,$(PRESET)),words,en)
TARGET ?= $(if $(filter parsing%,$(PRESET)),trees,de)
comma := ,
space := $(subst ,, )
# The last part of a local path, those of two files joined by -, or the complete name of a TFDS data set with - for /; as
# default_model_dir in checkpoints/model_folder.py.
IS_LOCAL = $(filter /% .%,$(DATA))$(findstring $(comma),$(DATA))$(wildcard $(DATA))
LOCAL_NAME = $(subst $(space),-,$(strip $(notdir $(patsubst %/,%,$(subst $(comma),$(space),$(DATA))))))
DATA_NAME = $(if $(IS_LOCAL),$(LOCAL_NAME),$(subst /,-,$(DATA)))
MODEL_DIR ?= models/$(PRESET)-$(DATA_NAME)-$(SOURCE)-$(TARGET)
SPLIT ?=
NAME ?= transformer
EXPORT_DIR ?= $(MODEL_DIR)/export/saved_model
BIN := .venv/bin
# $(call named,VARIABLE,default): the value that the user gave, or the default.
named = $(if $(filter command environment,$(origin $(1))),$($(1)),$(2))
# $(call flags,VARIABLE ...): the flag of each variable that the user gave; STEPS=9 becomes --train_steps='9'.
FLAG_STEPS := train_steps
FLAG_MINUTES := train_minutes
FLAG_DATA := data
FLAG_SOURCE := source
FLAG_TARGET := target
FLAG_MODEL_DIR := model_dir
flags = $(foreach name,$(1),$(if $(call named,$(name),),--$(FLAG_$(name))='$($(name))'))
# The gpu extra is installed where nvidia-smi finds a device.
EXTRAS := serving$(shell nvidia-smi -L >/dev/null 2>&1 && echo ,gpu)
# What users need. The name has the extras, so that the package is installed again on a host that gets a GPU.
STAMP := .venv/installed-$(subst $(comma),-,$(EXTRAS))
# .venv/installed-EXTRA adds another extra of pyproject.toml: dev for tests, or what DATA or FLAGS name.
DEV := .venv/installed-dev
NAMED := $(if $(filter hf:%,$(DATA)),datasets) $(filter ctranslate2 huggingface,$(subst =, ,$(FLAGS)))
train translate evaluate export serve: $(addprefix .venv/installed-,$(NAMED))
RUN := $(BIN)/python -m tf_transformer
# glibc keeps the memory of large tensors from step to step, in huge pages; see docs/install.md.
COMPUTING := train translate evaluate wmt14-ende wmt14-enfr multi30k multi30k-lowercased spanish table3 parse pretrained
$(COMPUTING): export MALLOC_MMAP_MAX_ ?= 0
$(COMPUTING): export MALLOC_TRIM_THRESHOLD_ ?= 100000000000
$(COMPUTING): export MALLOC_ARENA_MAX ?= 1
$(COMPUTING): export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1
# The server gives back the memory of an earlier version with jemalloc, where it is installed.
serve: export LD_PRELOAD ?= $(firstword $(wildcard /usr/lib/*/libjemalloc.so.2))
serve: export MALLOC_CONF ?= background_thread:true
# $(call score,folder,split): the last command of a recipe. After a dry run there is no model to score.
score = $(if $(filter --dry_run%,$(FLAGS)),,$(RUN) evaluate --model_dir='$(1)'$(if $(2), --split='$(2)'))

.PHONY: help install install-dev train translate evaluate average export serve plot info wmt14-ende wmt14-enfr multi30k multi30k-lowercased spanish table3 parse pretrained gpu-check test test-slow test-all test-lowest test-newest coverage test-gpu test-transformers test-wheel test-browser notebooks page lab docs docs-serve dist lint format clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "options of train: PRESET=pocket|tiny|small|base|big|parsing-pocket|parsing DATA= SOURCE= TARGET= MODEL_DIR= MINUTES= STEPS="

install: $(STAMP) ## create .venv and install the package into it, when it is missing or out of date
install-dev: $(DEV) ## the same with what tests, checks and builds need

# The first Python from 3.10 to 3.13 that can create virtual environments is used; PYTHON=... selects another.
# The pip of Python 3.10 takes more than 15 minutes to resolve the versions, so it is upgraded first.
$(STAMP): pyproject.toml setup.py
	@set -e; for python in $(PYTHON) python3 python3.12 python3.13 python3.11 python3.10 none; do \
	  if [ $$python = none ]; then echo "no Python 3.10 to 3.13 with venv found: install one, or give PYTHON=/path/to/python3" >&2; exit 2; fi; \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then break; fi; \
	done; \
	echo "installing into .venv with $$($$python --version): a few minutes the first time"; \
	[ -x $(BIN)/python ] && $(BIN)/python -c '' 2>/dev/null || { rm -rf .venv; $$python -m venv .venv; }; \
	rm -f .venv/installed-*; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip; \
	$(BIN)/python -m pip install --quiet -e '.[$(EXTRAS)]'; \
	touch $@

.venv/installed-%: $(STAMP)
	@echo "installing the extra $* into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

train: $(STAMP) ## train a model: by default the pocket preset on the built-in corpus
	$(RUN) train --preset=$(PRESET) --data='$(DATA)' --source=$(SOURCE) --target=$(TARGET) --model_dir='$(MODEL_DIR)' \
	  $(if $(MINUTES),--train_minutes=$(MINUTES)) $(if $(STEPS),--train_steps=$(STEPS)) $(FLAGS)

translate: $(STAMP) ## translate lines from the terminal, or INPUT=file OUTPUT=file
	@$(RUN) translate --model_dir='$(MODEL_DIR)' $(if $(INPUT),--input='$(INPUT)') $(if $(OUTPUT),--output='$(OUTPUT)') $(FLAGS)

evaluate: $(STAMP) ## BLEU and chrF of a model on SPLIT= of its data
	$(RUN) evaluate --model_dir='$(MODEL_DIR)' $(if $(SPLIT),--split='$(SPLIT)') $(FLAGS)

average: $(STAMP) ## average the newest LAST= or the best BEST= checkpoints of a model
	$(RUN) average --model_dir='$(MODEL_DIR)' $(if $(LAST),--last=$(LAST)) $(if $(BEST),--best=$(BEST)) $(FLAGS)

export: $(STAMP) ## export a model for TensorFlow Serving, or with FLAGS=--format=ctranslate2, keras or huggingface
	$(RUN) export --model_dir='$(MODEL_DIR)' $(if $(filter command,$(origin NAME)),--name=$(NAME)) \
	  $(if $(filter command,$(origin EXPORT_DIR)),--output='$(EXPORT_DIR)') $(FLAGS)

# The default folder gets a new version where the averaged weights are newer than the last one.
EXPORT_IS_OLD = $(if $(filter file,$(origin EXPORT_DIR)),|| [ '$(MODEL_DIR)/averaged.npz' -nt '$(EXPORT_DIR)/models.config' ])
# SERVER=ours selects our own server even where another one is installed.
serve: $(STAMP) ## serve the exported model over HTTP with tensorflow_model_server, Docker, or our own server
	@if [ ! -e '$(EXPORT_DIR)/models.config' ] $(EXPORT_IS_OLD); then \
	  $(RUN) export --model_dir='$(MODEL_DIR)' --output='$(EXPORT_DIR)' --name=$(NAME); \
	fi
	@set -e; folder=$$(cd '$(EXPORT_DIR)' && pwd); \
	if [ '$(SERVER)' != ours ] && command -v tensorflow_model_server >/dev/null; then \
	  set -x; exec tensorflow_model_server --port=8500 --rest_api_port=8501 --model_name=$(NAME) --model_base_path="$$folder" \
	    --enable_batching --batching_parameters_file="$$folder/batching_parameters.txt" \
	    --monitoring_config_file="$$folder/monitoring.config" $(FLAGS); \
	elif [ '$(SERVER)' != ours ] && docker info >/dev/null 2>&1; then \
	  set -x; exec docker run --rm --init -p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501 \
	    -e MODEL_NAME=$(NAME) -v "$$folder:/models/$(NAME)" tensorflow/serving \
	    --monitoring_config_file=/models/$(NAME)/monitoring.config \
	    --enable_batching --batching_parameters_file=/models/$(NAME)/batching_parameters.txt $(FLAGS); \
	else \
	  exec $(RUN) serve --export_dir="$$folder" --name=$(NAME) $(FLAGS); \
	fi

plot: $(STAMP) ## plot loss, BLEU, learning rate and speed of a run
	$(RUN) info --model_dir='$(MODEL_DIR)' --plot='$(MODEL_DIR)/history.png' $(FLAGS)

info: $(STAMP) ## describe PRESET=
	@$(RUN) info --preset=$(PRESET) $(FLAGS)

# The paper's two tasks (Sec. 5.1, 6.1), from TensorFlow Datasets; docs/reproduce.md has expected scores. FLAGS are those of train.
SIZE ?= base
RECIPE_DIR = $(call named,MODEL_DIR,models/$@-$(SIZE))
wmt14-ende: TASK := --data=wmt14_translate/de-en --source=en --target=de
wmt14-enfr: TASK := --data=wmt14_translate/fr-en --source=en --target=fr --vocab_size=32000 --dropout_rate=0.1
wmt14-ende: ## the paper's English-German run, SIZE=base|big: text, vocabulary, training, average, newstest2014
wmt14-enfr: ## the paper's English-French run, SIZE=base|big
wmt14-ende wmt14-enfr: $(STAMP)
	$(RUN) train --preset=$(SIZE) $(TASK) $(call flags,DATA STEPS MINUTES) --model_dir='$(RECIPE_DIR)' $(FLAGS)
	$(call score,$(RECIPE_DIR))

# Real text on two CPU cores. DATA is the folder with train.en.gz, train.de.gz, val.* and test_2016_flickr.*.
# Two models search together for 30 translations of a sentence. A model of the opposite direction helps to choose one.
multi30k: PRESET := $(call named,PRESET,tiny)
multi30k: DATA := $(call named,DATA,data/multi30k)
multi30k: SPLIT := $(call named,SPLIT,test_2016_flickr)
multi30k: SOURCES = $(shell ls -d '$(DATA)/$(SPLIT).$(SOURCE)' '$(DATA)/$(SPLIT).$(SOURCE).gz' 2>/dev/null | head -n 1)
multi30k: FIRST_DIR = $(patsubst %/,%,$(MODEL_DIR))-seeds/seed-1
multi30k: SECOND_DIR = $(patsubst %/,%,$(MODEL_DIR))-seeds/seed-2
multi30k: REVERSE_DIR = $(patsubst %/,%,$(MODEL_DIR))-reverse
multi30k: RESULT = $(FIRST_DIR)/evaluation/$(SPLIT)
multi30k: TRAIN = $(RUN) train --preset=$(PRESET) --vocab_size=8000 --subword_model=unigram --data='$(DATA)'
multi30k: FORWARD = $(TRAIN) --source=$(SOURCE) --target=$(TARGET) --train_steps=6200 $(call flags,STEPS MINUTES)
multi30k: REVERSE = $(TRAIN) --source=$(TARGET) --target=$(SOURCE) --train_steps=3500 $(call flags,STEPS MINUTES)
multi30k: $(STAMP) ## train on Multi30k, English to German and back, in DATA=folder, and score test_2016_flickr
	@[ -n '$(SOURCES)' ] || { echo "there is no $(DATA)/$(SPLIT).$(SOURCE) or $(DATA)/$(SPLIT).$(SOURCE).gz: give DATA=FOLDER with Multi30k" >&2; exit 2; }
	$(FORWARD) --model_dir='$(FIRST_DIR)' --seed=1 $(FLAGS)
	$(FORWARD) --model_dir='$(SECOND_DIR)' --seed=2 $(FLAGS)
	$(REVERSE) --model_dir='$(REVERSE_DIR)' $(FLAGS)
ifeq (,$(filter --dry_run%,$(FLAGS)))
	$(call score,$(FIRST_DIR),$(SPLIT))
	$(RUN) translate --model_dir='$(FIRST_DIR),$(SECOND_DIR)' --input='$(SOURCES)' --n_best=30 --beam_size=30 --output='$(RESULT).n_best.txt'
	$(RUN) rescore --input='$(RESULT).n_best.txt' --sources='$(SOURCES)' --reverse_model_dir='$(REVERSE_DIR)' --weights=1,0.3 --output='$(RESULT).rescored.$(TARGET)'
	$(RUN) evaluate --model_dir='$(FIRST_DIR)' --split='$(SPLIT)' --translations='$(RESULT).rescored.$(TARGET)'
endif

# Papers on Multi30k train on such text. The folder of the prepared text is DATA-lowercased.
multi30k-lowercased: TEXT := $(call named,DATA,data/multi30k)
multi30k-lowercased: LOWERCASED = $(patsubst %/,%,$(TEXT))-lowercased
multi30k-lowercased: $(STAMP) ## the same with lower-cased, normalised, tokenised text
	$(BIN)/python benchmarks/lowercased_text.py '$(TEXT)' '$(LOWERCASED)'
	@$(MAKE) --no-print-directory multi30k DATA='$(LOWERCASED)'

# The recipe of the built-in model tatoeba-en-es. DATA is spa.txt of keras.io's English-to-Spanish example, or a folder.
# With FLAGS=--precision=mixed_bfloat16 it takes two thirds of the time on CPUs with AVX512-BF16 or AMX.
SPANISH := --preset=small --source=en --target=es --vocab_size=8000 --subword_model=unigram --max_length=40 --norm=pre \
  --num_encoder_layers=4 --num_decoder_layers=2 --d_model=256 --num_heads=4 --dff=1024 --dropout_rate=0.1 \
  --dropout_warmup_steps=0 --learning_rate_schedule=linear --learning_rate=0.0015 --warmup_steps=1000 --batch_tokens=3072 \
  --train_steps=4000
spanish: DATA := $(call named,DATA,spa-eng/spa.txt)
spanish: MODEL_DIR := $(call named,MODEL_DIR,models/spanish)
spanish: $(STAMP) ## train English to Spanish on two CPU cores, on DATA=spa-eng/spa.txt or a folder, and score it
	$(RUN) train $(SPANISH) --data='$(DATA)' $(call flags,STEPS MINUTES) --model_dir='$(MODEL_DIR)' $(FLAGS)
	$(call score,$(MODEL_DIR),$(SPLIT))

table3: $(STAMP) ## print Table 3 with our parameter counts; FLAGS='--run --data=...' trains its rows at a reduced size
	@$(RUN) table3 $(call flags,DATA SOURCE TARGET STEPS MODEL_DIR) $(FLAGS)

# PRESET=parsing is the paper's parser, for GPUs and the Penn Treebank. The default trains in minutes on two CPU cores.
parse: PRESET := $(call named,PRESET,parsing-pocket)
parse: $(STAMP) ## train a parser on DATA=folder of .mrg files (default: the built-in treebank), and score it as EVALB does
	$(RUN) train --preset=$(PRESET) --data='$(DATA)' $(call flags,STEPS MINUTES) --model_dir='$(MODEL_DIR)' $(FLAGS)
	$(call score,$(MODEL_DIR))

# The training of the default takes about four minutes on two cores. The folder is a part of the package.
pretrained: NAME := $(call named,NAME,pocket-en-de)
pretrained: $(STAMP) ## train a built-in model again, NAME=pocket-en-de|tatoeba-en-de|tatoeba-de-en|tatoeba-en-es (DATA=folder), and write its folder and model card
	$(BIN)/python tools/pretrained_model.py '$(NAME)' $(call flags,DATA) $(FLAGS)

gpu-check: $(STAMP) ## check training and search on the GPUs, measure their speed, and write gpu-report.md
	@PYTHONPATH=benchmarks:tools $(BIN)/python -m gpu_check $(FLAGS)

# One process for each core, at most four: each process has TensorFlow in memory.
PYTEST := -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal
# $(call fast,folder of python): the fast tests, in four parts, one after the other: TensorFlow keeps some memory of each
# function that it traces, so that a process grows from test to test.
PART_1 := $(addprefix tests/,checkpoints cli export serving)
PART_2 := $(addprefix tests/,data evaluation training)
PART_3 := $(addprefix tests/,decoding model paper)
define fast
$(1)/python $(PYTEST) -m 'not slow' $(PART_1) $(FLAGS)
$(1)/python $(PYTEST) -m 'not slow' $(PART_2) $(FLAGS)
$(1)/python $(PYTEST) -m 'not slow' $(PART_3) $(FLAGS)
$(1)/python $(PYTEST) -m 'not slow' tests $(foreach part,$(PART_1) $(PART_2) $(PART_3),--ignore=$(part)) $(FLAGS)
endef

test: $(DEV) ## run the fast tests
	$(call fast,$(BIN))

test-slow: $(DEV) ## run the tests that start programs and wait for them; on Debian, root installs nginx for one
	$(BIN)/python $(PYTEST) -m slow $(FLAGS)

# One after another: the notebooks measure times.
test-all: $(DEV) ## run all tests but those that need a GPU or PyTorch, build the documentation, execute the notebooks
	$(MAKE) test
	$(MAKE) test-slow
	$(MAKE) test-wheel
	$(MAKE) test-browser
	$(MAKE) docs
	$(MAKE) notebooks

# The fast tests with other versions of the dependencies, in an environment of their own.
test-lowest: RESOLVE := --resolution=lowest-direct
test-lowest: ## the same with the lowest versions that pyproject.toml allows
test-newest: RESOLVE := --upgrade --prerelease=allow
test-newest: ## the same with the newest versions that it allows, pre-releases included
test-lowest test-newest: $(DEV)
	$(BIN)/uv venv --quiet --clear --python=$(BIN)/python .venv/$@
	$(BIN)/uv pip install --quiet --python=.venv/$@ $(RESOLVE) -e '.[dev]'
	$(call fast,.venv/$@/bin)

coverage: $(DEV) ## run the fast and the slow tests, and show which lines of the package they reach
	$(BIN)/python $(PYTEST) --cov=tf_transformer --cov-report=term-missing:skip-covered $(FLAGS)

# All GPUs, in one process.
test-gpu: $(DEV) ## run the tests that need a GPU; without one they are skipped
	$(BIN)/python -m pytest tests/gpu -m gpu -rs $(FLAGS)

test-browser: $(DEV) ## test the server's page, the attention viewer and the course's page in headless Chromium, which is installed if missing (Debian)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  echo "installing chromium and chromium-driver"; \
	  sudo=$$([ $$(id -u) = 0 ] || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; }
	$(BIN)/python -m pytest tests/serving/browser_page.py tests/visualization/browser_viewer.py \
	  tests/course/browser_transformer.py $(FLAGS)

EXECUTE := $(BIN)/python notebooks/course/execute.py
# These measure times, so nothing else runs beside them. Of the others, two run at a time, long ones first.
MEASURING := $(addprefix notebooks/,06_decoding.ipynb H_serving.ipynb J_costs.ipynb)
NOTEBOOKS := $(wildcard notebooks/*.ipynb)

notebooks: .venv/installed-notebooks ## execute all notebooks of the course in place, with the solutions of their exercises
	$(EXECUTE) $(MEASURING)
	printf '%s\n' $(filter-out $(MEASURING),$(NOTEBOOKS)) | sort -r | xargs -P 2 -n 1 $(EXECUTE)
	$(MAKE) --no-print-directory page

page: $(STAMP) ## write the playable page of the course, notebooks/transformer.html, again
	cd notebooks && $(abspath $(BIN))/python -m course.playable_page

lab: .venv/installed-notebooks ## open JupyterLab on the notebooks
	@$(BIN)/jupyter trust notebooks/*.ipynb >/dev/null  # untrusted notebooks do not show the attention viewer
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks $(FLAGS)

# With --quiet, MkDocs does not count warnings, and --strict has no effect.
docs: .venv/installed-docs ## build the documentation in site/; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: .venv/installed-docs ## show the documentation at http://127.0.0.1:8000, and build it again after a change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# PyTorch takes several GB, and does not always run in a process with TensorFlow.
TRANSFORMERS := .venv/transformers
TRANSFORMERS_STAMP := $(TRANSFORMERS)/installed
$(TRANSFORMERS_STAMP): $(DEV)
	$(BIN)/python -m venv $(TRANSFORMERS)
	$(TRANSFORMERS)/bin/python -m pip install --quiet --disable-pip-version-check torch 'transformers>=5' sentencepiece safetensors
	touch $@

test-transformers: $(TRANSFORMERS_STAMP) ## compare exports with Hugging Face transformers
	TRANSFORMERS_PYTHON=$(TRANSFORMERS)/bin/python $(BIN)/python -m pytest tests/export/transformers_parity.py $(FLAGS)

# The wheel and its dependencies are installed into an empty environment; the first time, pip downloads them.
test-wheel: $(DEV) ## build the wheel, install it into an empty environment, and run its commands
	$(BIN)/python -m pytest tests/installed_wheel.py $(FLAGS)

dist: $(DEV) ## build the wheel and the source distribution in dist/, and check them
	rm -rf dist
	$(BIN)/uv build --quiet
	$(BIN)/uvx --quiet twine check --strict dist/*

lint: $(DEV) ## check style, formatting, types, the Compose file and the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema=vendor.compose-spec deploy/compose.yaml
	$(BIN)/check-jsonschema --builtin-schema=vendor.github-workflows .github/workflows/*.yml

format: $(DEV) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv, builds and caches, but no models
	rm -rf .venv build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
