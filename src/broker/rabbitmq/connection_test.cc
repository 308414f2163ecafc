#include "broker/rabbitmq/connection.h"

#include <gtest/gtest.h>

namespace waybill::rabbitmq {
namespace {

TEST(RabbitmqRefusal, IsForAPersonUnlessItIsTheBrokersOwnAffair) {
  EXPECT_EQ(Remedy::fix_config, remedy_of({.code = 403, .text = "ACCESS_REFUSED - access to queue 'q' refused"}));
  EXPECT_EQ(Remedy::fix_config, remedy_of({.code = 404, .text = "NOT_FOUND - no queue 'q' in vhost '/'"}));
  EXPECT_EQ(Remedy::fix_config, remedy_of({.code = 406, .text = "PRECONDITION_FAILED - inequivalent arg"}));
  EXPECT_EQ(Remedy::retry, remedy_of({.code = 404,
                                      .text = "NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is "
                                              "down or inaccessible"}));
  EXPECT_EQ(Remedy::retry, remedy_of({.code = 405, .text = "RESOURCE_LOCKED"}));
  EXPECT_EQ(Remedy::retry, remedy_of({.code = 506, .text = "RESOURCE_ERROR"}));
}

}  // namespace
}  // namespace waybill::rabbitmq
