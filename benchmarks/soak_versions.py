"""The new versions of the soak test: some are damaged, and old ones are removed."""

import contextlib
import itertools
import json
import os
import shutil
import time

import urllib3
from serving import NAME

DAMAGED = 4  # each fourth version
LOAD_SECONDS = 120  # for a version, beside everything else
INCOMPLETE, REMOVED = "incomplete", "removed"  # folders of a change, beside the versions


class VersionChanger:
    """Changes the versions in the folder of the server.

    Args:
      soak: a `Soak`.
      folder: of the versions; `original` beside it is copied for a new one.
    """

    def __init__(self, soak, folder):
        self._soak = soak
        self._folder = folder

    def run(self, seconds):
        """Adds a version every some seconds, until the end."""
        kept = [max(int(name) for name in os.listdir(self._folder) if name.isdigit())]
        original = os.path.join(self._folder, "..", "original")
        for version in itertools.count(kept[0] + 1):
            if self._soak.ended.wait(seconds):
                break
            self._remove_leftovers()
            is_damaged = version % DAMAGED == 0
            self._add_version(original, version, is_damaged)
            expected = "END" if is_damaged else "AVAILABLE"
            self._wait_for_state(version, expected)
            kept.append(version)
            if is_damaged or len(kept) > 2:
                self._remove_version(kept.pop() if is_damaged else kept.pop(0))
            self._soak.count("damaged versions" if is_damaged else "reloads")

    def _add_version(self, original, version, is_damaged):
        new = os.path.join(self._folder, INCOMPLETE)
        shutil.copytree(original, new)
        if is_damaged:
            with open(os.path.join(new, "SHA256SUMS"), encoding="utf-8") as sums:
                name = sums.readline().rstrip("\n").split("  ", 1)[1]
            with open(os.path.join(new, name), "a", encoding="utf-8") as file:
                file.write("damaged")
        os.rename(new, os.path.join(self._folder, str(version)))

    def _remove_version(self, version):
        removed = os.path.join(self._folder, REMOVED)
        os.rename(os.path.join(self._folder, str(version)), removed)
        shutil.rmtree(removed)

    def _remove_leftovers(self):
        """Removes what a reload that failed has left: the next one needs these names."""
        for name in (INCOMPLETE, REMOVED):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(os.path.join(self._folder, name))

    def _wait_for_state(self, version, expected):
        end = time.monotonic() + LOAD_SECONDS
        state = ""
        while time.monotonic() < end and not self._soak.ended.is_set():
            path = f"/v1/models/{NAME}/versions/{version}"
            with contextlib.suppress(KeyError, ValueError, urllib3.exceptions.HTTPError):
                response = self._soak.pool.request("GET", path, timeout=10)
                state = json.loads(response.data)["model_version_status"][0]["state"]
            if state == expected:
                return
            time.sleep(0.2)
        if not self._soak.ended.is_set():
            self._soak.count(
                "versions", f"version {version} is {state or 'unknown'}, not {expected}"
            )
