// The suite for sinks catches what a sink can do wrong.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include "conformance/depot.h"

namespace waybill {
namespace {

// Impatient: a slow machine only makes it complain more.
class WrongDepot final : public DepotUnderTest {
 public:
  explicit WrongDepot(Mistake mistake) : mistake_(mistake) {}
  std::unique_ptr<Sink> make() override { return std::make_unique<DepotSink>(depot_, mistake_, 2 * at_once()); }
  std::chrono::milliseconds patience() const override { return 600ms; }
  std::chrono::milliseconds at_once() const override { return 100ms; }

 private:
  const Mistake mistake_;
};

struct Catch {
  std::string name{};
  Mistake mistake = Mistake::none;
  std::string check{};      // that finds it,
  std::string complaint{};  // and says so.
};

void PrintTo(const Catch& caught, std::ostream* out) {
  *out << caught.name;
}

std::string failures_of(const std::string& check_name, SinkUnderTest& world) {
  testing::TestPartResultArray results;
  std::string text;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    for (const SinkCheck& check : sink_checks()) {
      if (check.name != check_name) continue;
      try {
        check.run(world);
      } catch (const std::exception& error) {
        text += std::string("it threw: ") + error.what() + "\n";
      }
    }
  }
  for (int i = 0; i < results.size(); ++i)
    text += std::string(results.GetTestPartResult(i).message()).substr(0, 300) + "\n";
  return text;
}

class SinkSuiteTest : public testing::TestWithParam<Catch> {};

TEST_P(SinkSuiteTest, Catches) {
  WrongDepot world(GetParam().mistake);
  EXPECT_THAT(failures_of(GetParam().check, world), testing::HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, SinkSuiteTest,
    testing::Values(
        Catch{"AnswersTwice", Mistake::answers_twice, "EveryEventIsDeliveredAndAnsweredOnce", "waits for none"},
        Catch{"AnswersForOthers", Mistake::answers_for_others, "EveryEventIsDeliveredAndAnsweredOnce",
              "waits for none"},
        Catch{"LosesAnAnswer", Mistake::loses_an_answer, "EveryEventIsDeliveredAndAnsweredOnce", "without an outcome"},
        Catch{"LosesAnEvent", Mistake::loses_an_event, "EveryEventIsDeliveredAndAnsweredOnce",
              "is delivered and not there"},
        Catch{"AnswersBeforeItSends", Mistake::answers_before_it_sends, "WhatIsDeliveredHasArrived",
              "is delivered and not there"},
        Catch{"SendsTwice", Mistake::sends_twice, "EveryEventIsDeliveredAndAnsweredOnce", "is there twice"},
        Catch{"CutsAtAZeroByte", Mistake::cuts_at_a_zero_byte, "UnusualEventsArriveByteForByte",
              "another body arrived"},
        Catch{"BlocksInSubmit", Mistake::blocks_in_submit, "NothingIsDeliveredWhileItHangs", "submit() waits"},
        Catch{"ThrowsWhenAway", Mistake::throws_when_away, "AwayFromTheStartIsUnavailable", "it threw"},
        Catch{"WaitsForTheDeadline", Mistake::waits_for_the_deadline, "CollectReturnsAsSoonAsThereIsAnOutcome",
              "world.patience() / 2"},
        Catch{"IgnoresTheDeadline", Mistake::ignores_the_deadline, "NothingIsDeliveredWhileItHangs",
              "collect() does not return at its deadline"},
        Catch{"ReturnsWithoutAnOutcome", Mistake::returns_without_an_outcome, "NothingIsDeliveredWhileItHangs",
              "collect() returns before its deadline"},
        Catch{"TakesFewerThanItSays", Mistake::takes_fewer_than_it_says, "TakesAsManyAsItSays", "many"},
        Catch{"GivesNoReason", Mistake::gives_no_reason, "AwayFromTheStartIsUnavailable", "because of ''"},
        Catch{"GivesAReasonForSuccess", Mistake::gives_a_reason_for_success, "EveryEventIsDeliveredAndAnsweredOnce",
              "because of 'fine'"},
        Catch{"TellsThePayload", Mistake::tells_the_payload, "GoesOnAfterAnOutage", "a payload in a reason"},
        Catch{"TellsThePassword", Mistake::tells_the_password, "GoesOnAfterAnOutage", "a secret in a reason"},
        Catch{"AnswersAfterClose", Mistake::answers_after_close, "CloseForgetsAndBeginsAnew", "waits for none"},
        Catch{"HangsInClose", Mistake::hangs_in_close, "ClosesByItsDeadlineWhileItHangs",
              "close() does not return at its deadline"},
        Catch{"HangsWhenDestroyed", Mistake::hangs_when_destroyed, "GoesByItselfWhileItHangs", "cannot be got rid of"},
        Catch{"NeverComesBack", Mistake::never_comes_back, "GoesOnAfterAnOutage", "cannot be delivered though"},
        Catch{"BlamesTheEvents", Mistake::blames_the_events, "GoesOnAfterAnOutage", "no event's fault"},
        Catch{"HopesForTheBest", Mistake::hopes_for_the_best, "NothingIsDeliveredWhileItHangs", "delivered_before"},
        Catch{"SaysUnknownForUnsent", Mistake::says_unknown_for_unsent, "AwayFromTheStartIsUnavailable",
              "Kind::unavailable"},
        Catch{"ProbesTooWell", Mistake::probes_too_well, "GoesOnAfterAnOutage", "traffic.probe"},
        Catch{"HangsInProbe", Mistake::hangs_in_probe, "ProbeTellsByItsDeadlineWhileItHangs",
              "probe() does not return at its deadline"},
        Catch{"ForgetsWhatIsInterrupted", Mistake::forgets_what_is_interrupted, "ABrokenConnectionLosesNothing",
              "without an outcome"}),
    [](const testing::TestParamInfo<Catch>& made) { return made.param.name; });

INSTANTIATE_TEST_SUITE_P(Depot, SinkSuite, every_sink_check("depot", [] { return std::make_unique<DepotUnderTest>(); }),
                         sink_check_name);

}  // namespace
}  // namespace waybill
