"""examples/memos: mails as events, once for each reader. A file stands in for the mail server."""
import os
import subprocess
import unittest

from example import ExampleCase


class Memos(ExampleCase):
    def test_its_page_and_then_many_at_once(self):
        as_service = self.server.url.replace("postgres@", "memos_service@")
        self.walk("memos", {"MEMOS_URL": as_service}, {"memos": os.environ["WAYBILL_EXAMPLE"]})

        processes = [subprocess.Popen([os.environ["WAYBILL_EXAMPLE"], "remind", "IT-1", "ben@example.org"],
                                      env={**os.environ, "MEMOS_URL": as_service}) for _ in range(8)]
        self.assertEqual([0] * 8, [process.wait(60) for process in processes])
        self.assertEqual(["1"], self.query("SELECT count(*) FROM waybill.email_outbox WHERE notification_type ="
                                           " 'mail.memo-reminder' AND recipient_email = 'ben@example.org'"))


if __name__ == "__main__":
    unittest.main()
