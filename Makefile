# The two commands: `make run` (a demo to look at) and `make test` (everything). Each installs what it needs first.
.PHONY: build run test asan tsan format tidy packages-build packages-test clean
ARGS ?=

build: packages-build
	cmake --preset release > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
	@rm -f build.log
	cmake --build --preset release --target waybill

run: build
	build/waybill demo $(ARGS)

test: packages-test
	cmake --preset release
	cmake --build --preset release
	ctest --test-dir build --output-on-failure -j2

asan tsan: packages-test
	cmake --preset $@
	cmake --build --preset $@
	ctest --test-dir build/$@ --output-on-failure -j2 -LE slow

packages-build packages-test:
	@tools/packages $(@:packages-%=%)

format:
	clang-format -i $$(git ls-files '*.h' '*.cc')

clean:
	rm -rf build
