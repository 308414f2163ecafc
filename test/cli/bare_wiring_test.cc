// A build without any broker: compiled without the definitions that those components bring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/wiring.h"

namespace waybill::app {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST(BareBuild, ServesOnlyWhatIsInIt) {
  EXPECT_THAT(built_in_destination_types(), ElementsAre("file", "null", "stdout", "stream"));
}

TEST(BareBuild, KnowsTheNamesOfTheOthers) {
  EXPECT_THAT(destination_types(), Contains("nats"));
  EXPECT_THAT(destination_types(), Contains("rabbitmq"));
}

}  // namespace
}  // namespace waybill::app
