"""docs/tutorial.md, as a reader follows it: with what `make install` installs, in an empty folder."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from walk import SOURCE, Walk


class Tutorial(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-tutorial-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def installed(self):
        """What finds the library, for pkg-config and for the loader."""
        prefix = self.folder / "installed"
        subprocess.run(["cmake", "--install", os.environ["WAYBILL_BUILD"], "--prefix", str(prefix)], check=True,
                       stdout=subprocess.DEVNULL)
        libraries = next(prefix.glob("**/pkgconfig")).parent
        return {"PKG_CONFIG_PATH": str(libraries / "pkgconfig"), "LD_LIBRARY_PATH": str(libraries)}

    def test_as_it_stands(self):
        (self.folder / "tutorial").mkdir()
        Walk(self, SOURCE / "docs" / "tutorial.md", self.folder / "tutorial", self.installed(),
             {"waybill": os.environ["WAYBILL_BINARY"], "g++": os.environ["CXX"]}).go()


if __name__ == "__main__":
    unittest.main()
