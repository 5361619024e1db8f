from skds._skds import Dataset, Error, __version__
