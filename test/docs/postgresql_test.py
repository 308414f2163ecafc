"""docs/postgresql.md, as a reader follows it: on a server of its own."""
import os
import pathlib
import shutil
import tempfile
import unittest

from processes import Postgres
from walk import SOURCE, Walk


class SetUpPostgresql(unittest.TestCase):
    def test_as_it_stands(self):
        server_folder, folder = (tempfile.mkdtemp(prefix="waybill-postgresql-") for _ in range(2))
        for each in (server_folder, folder):
            self.addCleanup(shutil.rmtree, each, ignore_errors=True)
        server = Postgres(server_folder, "other", lazy=False)
        self.addCleanup(server.crash)
        # The page's "db" is this server.
        given = {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(server.port)}
        Walk(self, SOURCE / "docs" / "postgresql.md", pathlib.Path(folder), given,
             {"waybill": os.environ["WAYBILL_BINARY"]}).go()


if __name__ == "__main__":
    unittest.main()
