"""Every link of a page leads somewhere: to a file of the repository, and to a heading in it."""
import re
import unittest

from walk import SOURCE

LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def anchors(page):
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_all(self):
        pages = [page for page in SOURCE.rglob("*.md") if "build" not in page.relative_to(SOURCE).parts]
        self.assertGreater(len(pages), 20)
        for page in pages:
            for path, anchor in LINK.findall(FENCE.sub("", page.read_text())):
                target = page.parent / path if path else page
                with self.subTest(page=str(page.relative_to(SOURCE)), link=path, anchor=anchor):
                    self.assertTrue(target.exists(), "no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(target))


if __name__ == "__main__":
    unittest.main()
