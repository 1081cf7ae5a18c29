"""The built-in corpus and treebank, which a grammar of English and German generates."""
