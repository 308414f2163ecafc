"""Installs what was built into a temporary folder, moves it, and builds somebody else's project with it."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
HEADERS = HERE.parents[1] / "include" / "waybill"
BUILD = os.environ["WAYBILL_BUILD"]
PARTS = os.environ["WAYBILL_PARTS"].split(",")
CXX = os.environ["CXX"]
# Headers of these are for those who have the library.
ADAPTERS = {"pqxx.h", "gmock.h"}


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=500, **options)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(str(c) for c in command)}: {done.returncode}\n{done.stdout}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"waybill-install-{os.getpid()}-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run("cmake", "--install", BUILD, "--prefix", "/opt/waybill", env=os.environ | {"DESTDIR": str(cls.folder / "stage")})
        # Elsewhere than it was told to be: nothing in it names its place.
        cls.prefix = cls.folder / "moved"
        (cls.folder / "stage" / "opt" / "waybill").rename(cls.prefix)
        cls.libdir = next(cls.prefix.glob("**/pkgconfig")).parent
        cls.shared = list(cls.libdir.glob("libwaybill*.so.*.*.*"))

    def environment(self):
        return os.environ | {"PKG_CONFIG_PATH": str(self.libdir / "pkgconfig"), "LD_LIBRARY_PATH": str(self.libdir)}

    def pages(self):
        return next(self.prefix.glob("**/ARCHITECTURE.md")).parent

    def used(self, program):
        """The consumer works, and so does the installed program on its file."""
        database = self.folder / f"{program.parent.name}.db"
        self.assertEqual("2 delivered\n", run(program, database, env=self.environment()))
        status = run(self.prefix / "bin" / "waybill", "status", "--json",
                     env=self.environment() | {"WAYBILL_STORE": f"sqlite:{database}"})
        self.assertIn('"out"', status)

    def test_a_project_with_cmake_finds_it(self):
        build = self.folder / "with-cmake"
        run("cmake", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DWAYBILL_PARTS={';'.join(PARTS)}", f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", build, "-j2")
        self.used(build / "consumer")
        if "gmock" in PARTS:
            run(build / "consumer_test", env=self.environment())
        self.assertEqual("no broker\n", run(build / "queue_consumer", build / "queue.db", env=self.environment()))
        if "pqxx" in PARTS:
            self.assertEqual("no server\n", run(build / "pqxx_consumer", env=self.environment()))

    def test_a_part_that_was_not_built_is_named(self):
        with self.assertRaisesRegex(AssertionError, "built\\s+without\\s+'sails'"):
            run("cmake", "-S", HERE / "consumer", "-B", self.folder / "without", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                "-DWAYBILL_PARTS=core;sails", f"-DCMAKE_CXX_COMPILER={CXX}")

    def test_a_project_without_cmake_finds_it(self):
        folder = self.folder / "with-pkg-config"
        folder.mkdir()
        flags = run("pkg-config", "--cflags", "--libs", "waybill", env=self.environment())
        run(CXX, "-std=c++20", HERE / "consumer" / "consumer.cc", "-o", folder / "consumer", *shlex.split(flags))
        self.used(folder / "consumer")

    def test_an_example_is_built_elsewhere_as_its_page_says(self):
        shutil.copytree(self.pages() / "examples", self.folder / "examples")
        page = (self.folder / "examples" / "README.md").read_text()
        command = re.search(r"^g\+\+ .*pkg-config.*$", page, re.M).group(0).replace("g++", CXX, 1)
        run("bash", "-euc", command, cwd=self.folder / "examples" / "clinic", env=self.environment())

    def test_the_pages_lead_to_each_other(self):
        for page in self.pages().rglob("*.md"):
            text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
            for link in re.findall(r"\]\((?!https?:)([^)#\s]+)[#)]", text):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")

    def test_the_license_is_installed_and_named(self):
        self.assertIn("Apache License\n                           Version 2.0", (self.pages() / "LICENSE").read_text())
        packages = list((self.libdir / "pkgconfig").glob("*.pc"))
        self.assertGreater(len(packages), 1)
        for package in packages:
            self.assertRegex(package.read_text(), r"(?m)^License: Apache-2\.0$", package.name)
        config = (self.libdir / "cmake" / "waybill" / "waybill-config.cmake").read_text()
        self.assertIn("set(waybill_LICENSE Apache-2.0)", config)

    def test_core_headers_include_nothing_of_others(self):
        installed = sorted((self.prefix / "include" / "waybill").glob("*.h"))
        self.assertEqual({p.name for p in HEADERS.glob("*.h")}, {p.name for p in installed})
        for header in installed:
            if header.name in ADAPTERS:
                continue
            files = run(CXX, "-std=c++20", "-M", "-x", "c++", f"-I{self.prefix}/include", header).split()
            foreign = [f for f in files if not f.startswith(str(self.prefix)) and
                       re.search(r"/(fmt|nlohmann|pqxx|postgresql|gtest|gmock|openssl)/|/(libpq-fe|sqlite3|amqp|nats)[^/]*\.h$", f)]
            self.assertEqual([], foreign, header.name)

    def test_the_shared_libraries_offer_what_the_headers_declare(self):
        if not self.shared:
            self.skipTest("static libraries")
        declared = set(re.findall(r"\w+", "".join(p.read_text() for p in HEADERS.glob("*.h"))))
        offered = {}
        for library in self.shared:
            symbols = run("nm", "-DC", "--defined-only", library).splitlines()
            ours = 0
            for line in symbols:
                kind, name = re.match(r"[0-9a-f]+ (\w) (.*)", line).groups()
                names = re.findall(r"waybill::(\(anonymous namespace\)|\w+)", name)
                self.assertLessEqual(set(names), declared, name)
                ours += bool(names)
                if kind in "TDBR":
                    self.assertTrue(names, f"{library.name} offers {name}")
                    self.assertIs(offered.setdefault(name, library), library, f"{name} is offered twice")
                self.assertNotRegex(name, r"^(fmt|nlohmann)::|(for|to) (fmt|nlohmann)::")
            self.assertGreater(ours, 0)
            version = run("objdump", "-p", library)
            self.assertRegex(version, rf"SONAME +{library.name.split('.so')[0]}\.so\.\d+\.\d+\n")


if __name__ == "__main__":
    unittest.main()
