// broker_bench: what a relay makes of the brokers that it sends to. See README.md.
#include <CLI/CLI.hpp>

#include "program.h"

int main(int argc, char** argv) {
  using namespace waybill::bench;
  return run_program(
      {
          .name = "broker_bench",
          .purpose = "Measures what a relay makes of the brokers that it sends to.",
          .output = "build/bench/brokers.json",
          .benches =
              {
                  {rabbitmq_vs_ceiling, {"rabbitmq_vs_ceiling"}},
                  {rabbitmq_classic_vs_ceiling, {"rabbitmq_classic_vs_ceiling"}},
                  {nats_vs_ceiling, {"nats_vs_ceiling"}},
                  {rabbitmq_commit_to_confirm, {"rabbitmq_commit_to_confirm_over_bare_p99_ms"}},
                  {nats_commit_to_confirm, {"nats_commit_to_confirm_over_bare_p99_ms"}},
                  {rabbitmq_hot_key, {"rabbitmq_hot_key_events_per_s"}},
                  {nats_hot_key, {"nats_hot_key_events_per_s"}},
                  {rabbitmq_beside_down, {"rabbitmq_beside_down"}},
                  {nats_beside_down, {"nats_beside_down"}},
              },
      },
      argc, argv);
}
