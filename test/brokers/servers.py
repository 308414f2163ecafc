"""Brokers as children that die with us, each in a folder of its own and on free ports."""
import os
import pathlib
import pwd
import socket
import subprocess
import tempfile
import time

ERLANG_USER = "rabbitmq"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, process, log, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args} did not start:\n{pathlib.Path(log).read_text(errors='replace')}")
        time.sleep(0.02)


def spawn(command, log, user=None, env=None):
    """`user`: runs as that user if we are root."""
    become = [f"--reuid={user}", f"--regid={user}", "--init-groups"] if user and os.geteuid() == 0 else []
    with open(log, "ab") as file:
        return subprocess.Popen(["setpriv", *become, "--pdeathsig", "SIGKILL", *command], stdout=file, stderr=file,
                                env={**os.environ, **(env or {})})


class Folder:
    def __init__(self, owner=None):
        self.temporary = tempfile.TemporaryDirectory(prefix="waybill-broker-", ignore_cleanup_errors=True)
        self.path = self.temporary.name
        os.chmod(self.path, 0o755)
        if owner and os.geteuid() == 0:
            entry = pwd.getpwnam(owner)
            os.chown(self.path, entry.pw_uid, entry.pw_gid)

    def __truediv__(self, name):
        return f"{self.path}/{name}"


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A server that can end and begin again, on the same port and with what it had on disk."""

    def stop(self):
        """A clean end."""
        self.process.terminate()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Nats(Server):
    def __init__(self):
        self.folder, self.port = Folder(), free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = spawn(["nats-server", "-js", "-sd", self.folder / "store", "-a", "127.0.0.1", "-p", str(self.port)],
                             self.folder / "log")
        wait_until(lambda: accepts(self.port), self.process, self.folder / "log")

    def close(self):
        self.kill()


class Rabbitmq(Server):
    def __init__(self):
        self.folder = folder = Folder(ERLANG_USER)
        self.port, names, distribution = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.write("enabled_plugins", "[].\n")
        self.write("rabbitmq.conf", f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.file = false\nlog.console = true\n"
                   "log.console.level = warning\nloopback_users = none\ndisk_free_limit.absolute = 50MB\n")
        self.environment = {
            "HOME": folder.path, "RABBITMQ_NODENAME": f"t{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution), "ERL_EPMD_PORT": str(names), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": folder / "mnesia", "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": folder / "generated", "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
            # The script becomes the server, instead of waiting for it: so it dies with us.
            "RUNNING_UNDER_SYSTEMD": "true"}
        # Erlang would start its name server by itself, and that would outlive us.
        self.names = spawn(["epmd", "-port", str(names), "-address", "127.0.0.1"], folder / "epmd.log", ERLANG_USER)
        wait_until(lambda: accepts(names), self.names, folder / "epmd.log")
        self.start()

    def start(self):
        self.process = spawn(["/usr/lib/rabbitmq/bin/rabbitmq-server"], self.folder / "server.log", ERLANG_USER,
                             self.environment)
        wait_until(lambda: accepts(self.port), self.process, self.folder / "server.log")

    def write(self, name, text):
        pathlib.Path(self.folder / name).write_text(text)

    def close(self):
        self.kill()
        self.names.kill()
        self.names.wait()
