"""examples/python-sql: SQL is all that producer and consumer know of Waybill."""
import os
import subprocess
import unittest

from example import ExampleCase


class PythonSql(ExampleCase):
    def start(self, script, *arguments, **options):
        return subprocess.Popen([self.folder / script, *arguments], cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "DATABASE_URL": self.server.url}, **options)

    def test_its_page_and_then_many_at_once(self):
        self.walk("python-sql")
        self.assertEqual(["stock.low cups", "stock.sold cups", "stock.sold tea"],
                         self.query("SELECT topic || ' ' || aggregate_id FROM waybill.event ORDER BY 1"))

        sold = [self.start("producer.py", "tea", "1") for _ in range(8)]
        self.assertEqual({f"sold 1 tea, {left} left\n" for left in range(62, 70)},
                         {process.communicate()[0] for process in sold})
        subprocess.run([os.environ["WAYBILL_BINARY"], "--quiet", "run", "--once"], cwd=self.folder, check=True,
                       env={**os.environ, "DATABASE_URL": self.server.url})
        packed = []
        for _ in range(4):  # All of them read everything, at the same time.
            with open(self.folder / "events.jsonl") as events:
                packed.append(self.start("consumer.py", stdin=events))
        said = "".join(process.communicate()[0] for process in packed).splitlines()
        self.assertEqual([0] * 4, [process.returncode for process in packed])
        self.assertEqual((8, 4 * 11 - 8), (said.count("packed 1 tea"), said.count("known")))
        self.assertEqual(["10|10"], self.query("SELECT count(*), count(DISTINCT event) FROM parcel"))

        for what in ("* FROM waybill.event", "waybill.first_time('warehouse', 'x')"):
            refused = subprocess.run(["psql", "-XAtq", "-c", f"SET ROLE shop; SELECT {what}", self.server.url], check=False,
                                     stderr=subprocess.PIPE, text=True)
            self.assertIn("permission denied", refused.stderr, "the shop may write events, and no more")


if __name__ == "__main__":
    unittest.main()
