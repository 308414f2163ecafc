"""examples/orders: an Idempotency-Key, the outbox, an inbox; with kills."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from example import BINARY, ExampleCase
from processes import free_port
from walk import SOURCE, Walk

EXAMPLE = os.environ["WAYBILL_EXAMPLE"]


class Orders:
    """The service, and those who ask it."""

    def __init__(self, store, folder):
        self.store, self.folder, self.port, self.process = store, folder, free_port(), None

    def start(self):
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen([EXAMPLE, self.store, str(self.port)], stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None, key=None):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.request(method, path, body, {"Idempotency-Key": key} if key else {})
            response = line.getresponse()
            return response.status, response.read().decode()
        finally:
            line.close()

    def insist(self, method, path, body=None, key=None):
        """As a good client: again under the same key, until there is an answer that is one."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                answer = self.ask(method, path, body, key)
                if answer[0] not in (409, 503):
                    return answer
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        raise TimeoutError(f"no answer; the service says: {(self.folder / 'log').read_text()[-2000:]}")

    def invoices(self):
        return json.loads(self.insist("GET", "/invoices")[1])


class OrdersCase:
    def store(self):
        raise NotImplementedError

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-orders-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.orders = Orders(self.store(), self.folder)
        self.orders.start()
        self.addCleanup(lambda: self.orders.kill())

    def wait_for_invoices(self, count):
        deadline = time.monotonic() + 60
        while len(self.orders.invoices()) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return [invoice["order"] for invoice in self.orders.invoices()]

    def test_asked_twice_placed_once(self):
        tea = '{"item": "tea", "amount": 3}'
        status, body = self.orders.insist("POST", "/orders", tea, "k-1")
        self.assertEqual(201, status)
        self.assertEqual((201, body), self.orders.insist("POST", "/orders", tea, "k-1"))
        status, problem = self.orders.insist("POST", "/orders", '{"item": "tea", "amount": 4}', "k-1")
        self.assertEqual((422, 422), (status, json.loads(problem)["status"]))
        self.assertEqual(400, self.orders.insist("POST", "/orders", tea)[0])
        status, problem = self.orders.insist("POST", "/orders", tea, "k" * 256)
        self.assertEqual(400, status)
        self.assertIn("255", problem, "to ask again would not help")
        for number, order in enumerate(["no order", *(f'{{"item": "tea", "amount": {amount}}}'
                                                      for amount in ("-1", "1.5", "18446744073709551615", '"3"'))]):
            self.assertEqual(400, self.orders.insist("POST", "/orders", order, f"bad-{number}")[0], order)
        self.assertEqual(404, self.orders.insist("GET", "/")[0])
        self.assertEqual([json.loads(body)["order"]], self.wait_for_invoices(1))
        self.assertEqual(0, self.orders.stop())

    def test_row83_84_killed_all_the_time_each_order_has_one_invoice(self):
        """30 orders, each asked for by two clients at once, while the service is killed and started again."""
        done = threading.Event()
        kills = 0

        def disturb():
            nonlocal kills
            while not done.wait(random.random() / 5):
                self.orders.kill()
                kills += 1
                self.orders.start()
                self.orders.insist("GET", "/invoices")

        def place(number):
            time.sleep(number / 20)
            body = json.dumps({"item": "tea", "amount": number})
            status, answer = self.orders.insist("POST", "/orders", body, f"k-{number}")
            self.assertEqual(201, status, answer)
            return number, json.loads(answer)["order"]

        self.orders.insist("GET", "/invoices")
        killer = threading.Thread(target=disturb)
        killer.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(60) as clients:
                told = sorted(clients.map(place, [*range(30), *range(30)]))
        finally:
            done.set()
            killer.join()
        self.assertGreater(kills, 2)
        self.assertEqual(told[0::2], told[1::2], "both clients were told of one order")
        self.assertEqual(sorted(order for _, order in told[0::2]), sorted(self.wait_for_invoices(30)))
        self.assertEqual(0, self.orders.stop())


class SqliteOrders(OrdersCase, unittest.TestCase):
    def store(self):
        return f"sqlite:{self.folder}/orders.db"

    def test_a_port_that_is_taken_ends_it(self):
        self.orders.insist("GET", "/invoices")
        second = subprocess.run([EXAMPLE, f"sqlite:{self.folder}/second.db", str(self.orders.port)], check=False,
                                stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(1, second.returncode)
        self.assertIn(f"cannot listen on port {self.orders.port}", second.stderr)

    def test_its_page(self):
        (self.folder / "walk").mkdir()
        Walk(self, SOURCE / "examples" / "orders" / "README.md", self.folder / "walk", {"PORT": str(free_port())},
             {"orders": EXAMPLE}).go()


class PostgresOrders(OrdersCase, ExampleCase):
    databases = 0

    def store(self):
        PostgresOrders.databases += 1
        database = f"t{PostgresOrders.databases}"
        self.server.psql("postgres", "-c", f"CREATE DATABASE {database}")
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/{database}"

    def test_what_can_never_be_billed_is_its_own_affair(self):
        """It is tried so many times, and billing does not count as away."""
        self.orders.insist("GET", "/invoices")
        subprocess.run([BINARY, "--quiet", "enqueue", "--topic", "order.placed", "--payload",
                        r'{"order": "no text: \u0000", "amount": 1}'], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DATABASE_URL": self.orders.store})
        body = self.orders.insist("POST", "/orders", '{"item": "tea", "amount": 3}', "k-1")[1]
        self.assertEqual([json.loads(body)["order"]], self.wait_for_invoices(1))
        deadline = time.monotonic() + 60
        look = ["psql", "-XAtq", "-c", "SELECT standing FROM waybill.undelivered", self.orders.store]
        while subprocess.run(look, check=True, stdout=subprocess.PIPE, text=True).stdout != "retrying\n":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
