# The two commands: `make run` (a demo to look at) and `make test` (everything). Each installs what it needs first.
# Beside them: `make build`, `make examples` (into build/examples/bin/), `make install` (with PREFIX and DESTDIR), `make
# asan`, `make tsan`, `make lint`, `make format`. What takes long: `make chaos-core` (a quarter of an hour of killing things), `make chaos-failures` (as long,
# with destinations that fail and people who redrive), `make chaos-brokers` (half an hour of restarting RabbitMQ and
# NATS), `make chaos-conflicts` (a hundred thousand of them), `make chaos-failover` (half an hour of changing the primary under
# Patroni; needs root, for network namespaces); `make proof-rebuild` (a projection of a million events rebuilt
# under load); `make fuzz` (a minute for each parser that meets strangers, or as ARGS say); `make bench`, `make bench-failures`, `make bench-brokers` and `make bench-library` (at most half an hour of
# figures each, into build/bench/).
.PHONY: build examples install run test asan tsan lint format chaos-core chaos-failures chaos-brokers chaos-conflicts chaos-failover \
  proof-rebuild bench fuzz bench-failures bench-brokers bench-library clean packages-build packages-test packages-lint packages-failover packages-fuzz
ARGS ?=
PREFIX ?= /usr/local
PYTHON = /usr/bin/python3 -B

build: packages-build
	cmake --preset release -DWAYBILL_TESTS=OFF
	cmake --build --preset release --target waybill

examples: packages-build
	cmake --preset release -DWAYBILL_TESTS=OFF -DWAYBILL_EXAMPLES=ON
	cmake --build --preset release --target waybill examples/all

install: packages-build
	cmake --preset release -DWAYBILL_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --build --preset release
	DESTDIR=$(DESTDIR) cmake --install build

run: build
	build/waybill demo $(ARGS)

test: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release
	ctest --test-dir build --output-on-failure -j3

asan tsan: packages-test
	cmake --preset $@
	cmake --build --preset $@
	ctest --test-dir build/$@ --output-on-failure -j3 -LE slow

chaos-core: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill chaos_producer
	$(PYTHON) test/chaos/chaos.py --events 250000 --kills 150 --crashes 10 $(ARGS)
	$(PYTHON) test/chaos/chaos.py --events 30000 --kills 0 --crashes 50 --sync-commit off $(ARGS)

chaos-failures: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill chaos_producer failing_relay
	$(PYTHON) test/chaos/chaos.py --events 150000 --kills 100 --crashes 10 --failing $(ARGS)
	$(PYTHON) test/chaos/redrives.py --operations 1000 --policy continue $(ARGS)
	$(PYTHON) test/chaos/redrives.py --operations 1000 --policy block $(ARGS)

chaos-brokers: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill chaos_producer
	$(PYTHON) test/consumers/install.py build/test/consumers/installed
	$(PYTHON) test/chaos/brokers.py $(ARGS)

chaos-conflicts: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill conflict_writers
	$(PYTHON) test/consumers/install.py build/test/consumers/installed
	$(PYTHON) test/chaos/conflicts.py $(ARGS)

chaos-failover: packages-failover
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill chaos_producer
	$(PYTHON) test/chaos/failover.py --synchronous $(ARGS)
	$(PYTHON) test/chaos/failover.py $(ARGS)

proof-rebuild: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target rebuild_test
	WAYBILL_TEST_EVENTS=1000000 build/test/service/rebuild_test $(ARGS)

bench: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill core_bench
	build/bench/core_bench --output build/bench/core.json $(ARGS)

bench-failures: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target failure_bench
	build/bench/failure_bench --output build/bench/failures.json $(ARGS)

bench-brokers: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target waybill broker_bench
	build/bench/broker_bench --output build/bench/brokers.json $(ARGS)

bench-library: packages-test
	cmake --preset release -DWAYBILL_TESTS=ON
	cmake --build --preset release --target library_bench
	build/bench/library_bench --output build/bench/library.json $(ARGS)

fuzz: packages-fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz --target fuzz
	$(PYTHON) test/fuzz/run.py build/fuzz $(ARGS)

lint: packages-lint
	cmake --preset release -DWAYBILL_TESTS=ON
	clang-format --dry-run --Werror $$(git ls-files '*.h' '*.cc')
	clang-tidy -p build --quiet $$(git ls-files 'src/*.cc' | grep -v _test.cc)

format: packages-lint
	clang-format -i $$(git ls-files '*.h' '*.cc')

packages-build packages-test packages-lint packages-failover packages-fuzz:
	@tools/packages $(@:packages-%=%)

clean:
	rm -rf build
