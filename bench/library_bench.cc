// library_bench: what those pay who let the library write for them. See README.md.
#include "program.h"

int main(int argc, char** argv) {
  using namespace waybill::bench;
  return run_program(
      {
          .name = "library_bench",
          .purpose = "Measures what those pay who let the library write for them.",
          .output = "build/bench/library.json",
          .benches =
              {
                  {append_vs_two_inserts,
                   {"append_vs_two_inserts", "append_vs_two_prepared_inserts", "append_vs_one_statement"}},
                  {batch_enqueue_vs_copy, {"batch_enqueue_vs_copy", "batch_enqueue_vs_copy_plain"}},
              },
      },
      argc, argv);
}
