"""The processes of a chaos run: a PostgreSQL server and relays, as children that die with us."""

import os
import signal
import socket
import subprocess
import time

BIN = "/usr/lib/postgresql/15/bin/"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def status_of(pid):
    """(state, parent) by /proc, or None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [number for number in numbers if (status_of(number) or ("", 0))[1] == pid]


def gone(pid):
    return (status_of(pid) or "Z")[0] in "ZX"


class Postgres:
    """A server that takes durability seriously, so that killing it is a test.

    A lazy one never writes its log but for a commit that waits for it: asynchronous commits stay in memory, to be lost.
    (A delay alone would not do: the WAL writer hands every full page to the kernel, which survives us.)"""

    def __init__(self, folder, database, lazy):
        self.folder, self.database, self.lazy, self.port = folder, database, lazy, free_port()
        self.settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": folder, "fsync": "on",
                         "max_connections": "200", "max_wal_size": "256MB", "wal_buffers": "32MB"}
        self.user = []  # PostgreSQL refuses to run as root.
        if os.geteuid() == 0:
            self.user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
            subprocess.run(["chown", "postgres", folder], check=True)
        subprocess.run(["setpriv", *self.user, BIN + "initdb", "-D", folder + "/data", "-U", "postgres", "-A", "trust",
                        "--no-sync", "-E", "UTF8", "--locale=C"], check=True, stdout=subprocess.DEVNULL)
        self.start()
        self.psql("postgres", "-c", f"CREATE DATABASE {database}")

    @property
    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self.database}"

    def start(self):
        settings = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder + "/postgres.log", "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", *self.user, "--pdeathsig", "SIGQUIT", BIN + "postgres", "-D", self.folder + "/data",
                 "-p", str(self.port), *settings], stdout=log, stderr=log)
        ready = [BIN + "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server did not start; see {self.folder}/postgres.log")
            time.sleep(0.02)
        if self.lazy:
            self.stop_wal_writer()

    def stop_wal_writer(self):
        """Not while it holds a lock: then no commit would ever come through."""
        writer = self.child("walwriter")
        while True:
            os.kill(writer, signal.SIGSTOP)
            try:
                self.psql("postgres", "-c", "SELECT pg_logical_emit_message(true, '', '')", timeout=2)
                return
            except subprocess.TimeoutExpired:
                os.kill(writer, signal.SIGCONT)

    def child(self, role):
        while True:
            for pid in children_of(self.process.pid):
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                        if f"postgres: {role}" in file.read():
                            return pid
                except (FileNotFoundError, ProcessLookupError):
                    pass  # It ended while we looked: some of the server's children are short-lived.
            time.sleep(0.01)

    def crash(self):
        """As if the machine lost its memory but not its disk: nobody gets to flush anything."""
        os.kill(self.process.pid, signal.SIGSTOP)  # No new children while we count them.
        while (status_of(self.process.pid) or "Z")[0] not in "TZX":
            time.sleep(0.001)
        pids = [self.process.pid, *children_of(self.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        while not all(map(gone, pids)):
            time.sleep(0.005)

    def psql(self, database, *arguments, stdout=subprocess.DEVNULL, timeout=None):
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port), "-U",
                        "postgres", "-d", database, *arguments], check=True, stdout=stdout, timeout=timeout)

    def export(self, query, path):
        with open(path, "wb") as file:
            self.psql(self.database, "--csv", "-c", query, stdout=file)


class Relay:
    """One place for a relay; whoever is killed there is replaced by a new process."""

    def __init__(self, number, command, folder):
        self.number, self.command = number, command
        self.log = f"{folder}/relay-{number}.log"
        self.process, self.started, self.stopped, self.ending = None, 0.0, False, False

    def running(self, seconds):
        """Has it been at work for so long, and nothing is being done to it?"""
        at_work = self.process is not None and not self.stopped and not self.ending
        return at_work and time.monotonic() - self.started >= seconds

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "SIGKILL", *self.command], stdout=log, stderr=log)
        self.started, self.stopped, self.ending = time.monotonic(), False, False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def wake(self):
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def terminate(self):
        self.process.terminate()
        self.ending = True

    def exit_code(self):
        """Of a process that ended by itself or was asked to; None if there is none."""
        code = self.process.poll() if self.process else None
        if code is not None:
            self.process = None
        return code
