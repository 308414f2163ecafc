"""Three PostgreSQL servers under Patroni with etcd, PgBouncer in front, each server in namespaces of its own.

The calling process moves into a network namespace of its own, where clients, PgBouncer and etcd run; the servers are
machines beside it on a bridge. Nothing is named outside, and nothing survives the caller: the kernel takes namespaces and
processes away with it. Needs root.
"""

import ctypes
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from processes import BIN

NETWORK = "10.99.0."
HUB = NETWORK + "1"  # Clients and PgBouncer.
ETCD = NETWORK + "2"
POOLER_PORT = 6432
CLONE_NEWNET = 0x40000000
# An init process that reaps the processes of its namespace.
INIT = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); signal.pause()"
# How long a client waits for a server that does not answer.
PATIENCE = "connect_timeout=3&tcp_user_timeout=5000&keepalives_idle=2&keepalives_interval=1&keepalives_count=3"

PATRONI = """
scope: chaos
name: {name}
restapi: {{listen: "{address}:8008", connect_address: "{address}:8008"}}
etcd3: {{host: "{etcd}:2379"}}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 1
    retry_timeout: 3
    maximum_lag_on_failover: 1000000000
    primary_start_timeout: 0
    synchronous_mode: {synchronous}
    synchronous_mode_strict: {synchronous}
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 200, wal_keep_size: 256MB, wal_log_hints: "on", hot_standby: "on",
                    max_wal_size: 1GB, shared_buffers: 32MB}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, {{auth: trust}}, no-sync]
postgresql:
  listen: "{address}:5432"
  connect_address: "{address}:5432"
  data_dir: {folder}/data
  bin_dir: {bin}
  pgpass: {folder}/pgpass
  use_unix_socket: true
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: replicator}}
    rewind: {{username: postgres}}
  parameters: {{unix_socket_directories: "{folder}"}}
  pg_hba: ["local all all trust", "host all all {network}0/24 trust", "host replication all {network}0/24 trust"]
"""

POOLER = """
[databases]
* = host={leader} port=5432 user=postgres
[pgbouncer]
listen_addr = {hub}
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = 40
max_client_conn = 400
server_connect_timeout = 3
server_login_retry = 1
server_fast_close = {fast_close}
query_timeout = 20
tcp_user_timeout = 5000
tcp_keepidle = 2
tcp_keepintvl = 1
tcp_keepcnt = 3
"""

CUT = """
flush ruleset
table inet cut {{
  chain in {{ type filter hook input priority 0; iifname != "lo" {source} drop; }}
  chain out {{ type filter hook output priority 0; oifname != "lo" {target} drop; }}
}}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, timeout=60, **options)


def as_postgres(*command):
    """The command as a user that PostgreSQL accepts; it dies with its parent."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "SIGKILL", *command]


def enter_own_network():
    """Moves this process, and all that it starts afterwards, into a new network with a bridge."""
    if os.geteuid() != 0:
        raise RuntimeError("network namespaces need root")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "hub", "type", "bridge")
    run("ip", "address", "add", HUB + "/24", "dev", "hub")
    run("ip", "address", "add", ETCD + "/24", "dev", "hub")
    run("ip", "link", "set", "hub", "up")


class Node:
    """A machine with Patroni and PostgreSQL."""

    def __init__(self, number, folder, synchronous, ttl):
        self.name, self.address, self.folder = f"n{number}", f"{NETWORK}{10 + number}", f"{folder}/n{number}"
        os.mkdir(self.folder, 0o700)
        run("chown", "postgres", self.folder)
        settings = PATRONI.format(name=self.name, address=self.address, etcd=ETCD, network=NETWORK, bin=BIN.rstrip("/"),
                                  folder=self.folder, ttl=ttl, synchronous=str(synchronous).lower())
        with open(self.folder + "/patroni.yml", "w", encoding="utf-8") as file:
            file.write(settings)
        self.log = open(f"{folder}/{self.name}.log", "ab")
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "SIGKILL", "unshare", "--net", "--pid", "--mount-proc", "--fork",
             "--kill-child=SIGKILL", "/usr/bin/python3", "-c", INIT], stdout=self.log, stderr=self.log)
        self.init = self._find_init()
        self._connect(number)

    def _find_init(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children", encoding="ascii") as file:
                children = file.read().split()
            if children and os.readlink(f"/proc/{children[0]}/ns/net") != os.readlink("/proc/self/ns/net"):
                return int(children[0])
            time.sleep(0.01)
        raise RuntimeError("cannot make namespaces; see " + self.log.name)

    def _connect(self, number):
        run("ip", "link", "add", f"veth{number}", "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        run("ip", "link", "set", f"veth{number}", "master", "hub", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "address", "add", self.address + "/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")

    def _enter(self):
        return ["nsenter", "--target", str(self.init), "--net", "--pid", "--mount"]

    def inside(self, *command, **options):
        return run(*self._enter(), *command, **options)

    def start(self):
        subprocess.Popen(["setpriv", "--pdeathsig", "SIGKILL", *self._enter(), *as_postgres(
            "patroni", self.folder + "/patroni.yml")], stdout=self.log, stderr=self.log)

    def processes(self, *words):
        """Those inside whose command line has one of the words; all but init without words."""
        here = os.readlink(f"/proc/{self.init}/ns/pid")
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{name}/ns/pid") != here or int(name) == self.init:
                    continue
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    command = file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if not words or any(word in command for word in words):
                yield int(name)

    def signal(self, number, *words):
        for pid in list(self.processes(*words)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def cut(self, *addresses):
        """No packet to or from the addresses; from anywhere without."""
        if addresses:
            listed = "{ " + ", ".join(addresses) + " }"
            rules = CUT.format(source=f"ip saddr {listed}", target=f"ip daddr {listed}")
        else:
            rules = CUT.format(source="", target="")
        self.inside("nft", "-f", "-", input=rules.encode())

    def heal(self):
        self.inside("nft", "flush", "ruleset")

    def ask(self, path, timeout=1.0, data=None):
        """(status, answer) of Patroni; (0, {}) if it does not answer."""
        request = urllib.request.Request(f"http://{self.address}:8008{path}", data and json.dumps(data).encode())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as page:
                status, text = page.status, page.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        except (OSError, ValueError):
            return 0, {}
        try:
            return status, json.loads(text)
        except ValueError:
            return status, {"text": text.decode(errors="replace")}

    def leads(self):
        return self.ask("/primary")[0] == 200

    def follows(self, timeline):
        """Is it a replica that streams this timeline, or a newer one?"""
        status, answer = self.ask("/replica")
        return status == 200 and (answer.get("timeline") or 0) >= timeline

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.log.close()


class Pooler:
    """PgBouncer in transaction mode; a thread points it at the leader, as a script of the operator's would."""

    def __init__(self, folder, nodes, leader, chance):
        self.path, self.nodes, self.leader = folder + "/pgbouncer.ini", nodes, leader
        self.random = random.Random(chance)
        self._write()
        with open(folder + "/pgbouncer.log", "ab") as log:
            self.process = subprocess.Popen(as_postgres("/usr/sbin/pgbouncer", self.path), stdout=log, stderr=log)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._follow)
        self.thread.start()

    def url(self, database):
        return f"postgresql://postgres@{HUB}:{POOLER_PORT}/{database}"

    def _write(self):
        # Whether sessions of the old server end at once or with their transaction is left to chance.
        settings = POOLER.format(leader=self.leader.address, hub=HUB, port=POOLER_PORT,
                                 fast_close=self.random.randint(0, 1))
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(settings)
        os.chmod(self.path + ".new", 0o644)
        os.replace(self.path + ".new", self.path)

    def _follow(self):
        while not self.over.wait(0.2):
            leader = next((node for node in self.nodes if node is not self.leader and node.leads()), None)
            if leader:
                self.leader = leader
                self._write()
                self.process.send_signal(signal.SIGHUP)

    def command(self, text):
        """On PgBouncer's console; without an effect if it takes longer than a second."""
        try:
            subprocess.run([BIN + "psql", "-qAt", "-c", text, self.url("pgbouncer")], timeout=1, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pass

    def end(self):
        self.over.set()
        self.thread.join()
        self.process.kill()
        self.process.wait()


class Cluster:
    """`database` on the leader of three. Its `psql` and `export` are those of processes.Postgres."""

    def __init__(self, folder, database, synchronous, ttl, seed):
        self.folder, self.database, self.synchronous = folder, database, synchronous
        os.chmod(folder, 0o755)
        enter_own_network()
        self.nodes, self.pooler, self.etcd = [], None, None
        try:
            self._start(ttl, seed)
        except BaseException:
            self.end()
            raise

    def _start(self, ttl, seed):
        os.mkdir(self.folder + "/etcd", 0o700)
        client, peer = f"http://{ETCD}:2379", f"http://{ETCD}:2380"
        with open(self.folder + "/etcd.log", "ab") as log:
            self.etcd = subprocess.Popen(
                ["setpriv", "--pdeathsig", "SIGKILL", "etcd", "--data-dir", self.folder + "/etcd",
                 "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer], stdout=log, stderr=log)
        self.nodes = [Node(number, self.folder, self.synchronous, ttl) for number in (1, 2, 3)]
        for node in self.nodes:
            node.start()
        leader = self.wait_for(self.find_leader, 120, "a first leader")
        self.wait_until_whole(leader)
        self.psql("postgres", "-c", f"CREATE DATABASE {self.database}")
        for node in self.nodes:  # libpq gives up at the first server that does not have it.
            self.wait_for(lambda node=node: self.has_database(node), 30, "the database on all servers")
        self.pooler = Pooler(self.folder, self.nodes, leader, seed)

    @staticmethod
    def wait_for(condition, seconds, what, tick=lambda: None):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds} s in vain for {what}")
            tick()
            time.sleep(0.1)
        return found

    def has_database(self, node):
        return subprocess.run([BIN + "psql", "-qXAtc", "SELECT 1", "-h", node.address, "-U", "postgres", self.database],
                              check=False, capture_output=True).returncode == 0

    def find_leader(self):
        return next((node for node in self.nodes if node.leads()), None)

    def timeline(self, leader):
        return leader.ask("/patroni")[1].get("timeline") or 0

    def wait_until_whole(self, leader, tick=lambda: None):
        """Both others follow; with synchronous replication, one of them is synchronous."""
        others = [node for node in self.nodes if node is not leader]
        self.wait_for(lambda: all(node.follows(self.timeline(leader)) for node in others), 180, "all replicas",
                      tick)
        self.wait_for(lambda: not self.synchronous or self.sync_standby(leader), 60, "a synchronous standby",
                      tick)

    @staticmethod
    def sync_standby(leader):
        return any(member["role"] == "sync_standby" for member in leader.ask("/cluster")[1].get("members", []))

    def direct_url(self, database):
        hosts = ",".join(f"{node.address}:5432" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write&{PATIENCE}"

    def psql(self, database, *arguments, stdout=subprocess.DEVNULL, timeout=60):
        subprocess.run([BIN + "psql", "-qX", "-v", "ON_ERROR_STOP=1", *arguments, self.direct_url(database)],
                       check=True, stdout=stdout, timeout=timeout)

    def export(self, query, path):
        with open(path, "wb") as file:
            self.psql(self.database, "--csv", "-c", query, stdout=file)

    def end(self):
        if self.pooler:
            self.pooler.end()
        for node in self.nodes:
            node.end()
        if self.etcd:
            self.etcd.kill()
            self.etcd.wait()
