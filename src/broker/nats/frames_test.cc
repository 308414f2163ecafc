#include "broker/nats/frames.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string shown(const Frame& frame) {
  switch (frame.kind) {
    case Frame::Kind::info:
      return "info " + std::string(frame.text);
    case Frame::Kind::error:
      return "error " + std::string(frame.text);
    case Frame::Kind::ping:
      return "ping";
    case Frame::Kind::pong:
      return "pong";
    case Frame::Kind::ok:
      return "ok";
    case Frame::Kind::message:
      break;
  }
  return "message " + std::string(frame.subject) + " " + std::to_string(frame.status) + " " + std::string(frame.data);
}

// Gives it `bytes` in pieces of at most `piece`, and takes all that comes.
class Feeder {
 public:
  std::vector<std::string> feed(std::string_view bytes, std::size_t piece = std::size_t(-1)) {
    std::vector<std::string> frames;
    while (!bytes.empty()) {
      const auto room = reader_.room();
      const std::size_t count = std::min({bytes.size(), piece, room.size()});
      std::memcpy(room.data(), bytes.data(), count);
      reader_.filled(count);
      bytes.remove_prefix(count);
      for (Frame frame; reader_.next(frame);) frames.push_back(shown(frame));
    }
    return frames;
  }
  bool empty() const { return reader_.empty(); }

 private:
  FrameReader reader_;
};

std::string refusal(std::string_view bytes) {
  try {
    Feeder().feed(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::retry, error.remedy());
    return error.what();
  }
  return "none";
}

const std::string everything =
    "INFO {\"a\":\"b c\"} \r\nPING\r\nPONG\r\n+OK\r\n"
    "MSG _INBOX.x.1 1 26\r\n{\"stream\":\"S\", \"seq\":1234}\r\n"
    "MSG _INBOX.x.2 1 some.reply 0\r\n\r\n"
    "HMSG _INBOX.x.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    "HMSG _INBOX.x.4\t1 reply  18 21\r\nNATS/1.0\r\na: 1\r\n\r\na\r\n\r\n"
    "ping\r\nPING\n"
    "-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n-ERR odd\r\n";

const std::vector<std::string> all_of_it{"info {\"a\":\"b c\"}",
                                         "ping",
                                         "pong",
                                         "ok",
                                         "message _INBOX.x.1 0 {\"stream\":\"S\", \"seq\":1234}",
                                         "message _INBOX.x.2 0 ",
                                         "message _INBOX.x.3 503 ",
                                         "message _INBOX.x.4 0 a\r\n",
                                         "ping",
                                         "ping",
                                         "error Permissions Violation for Publish to \"a.b\"",
                                         "error odd"};

TEST(FrameReaderTest, ReadsWhatAServerSays) {
  Feeder feeder;
  EXPECT_EQ(all_of_it, feeder.feed(everything));
  EXPECT_TRUE(feeder.empty());
}

TEST(FrameReaderTest, ReadsItHoweverItIsCut) {
  for (std::size_t cut = 0; cut <= everything.size(); ++cut) {
    Feeder feeder;
    auto frames = feeder.feed(std::string_view(everything).substr(0, cut));
    const auto rest = feeder.feed(std::string_view(everything).substr(cut));
    frames.insert(frames.end(), rest.begin(), rest.end());
    ASSERT_EQ(all_of_it, frames) << cut;
  }
  for (std::size_t piece = 1; piece < 100; ++piece) ASSERT_EQ(all_of_it, Feeder().feed(everything, piece)) << piece;
}

TEST(FrameReaderTest, HalfAFrameIsNone) {
  Feeder feeder;
  EXPECT_THAT(feeder.feed("MSG a 1 5\r\nhell"), ElementsAre());
  EXPECT_THAT(feeder.feed("o\r"), ElementsAre());
  EXPECT_FALSE(feeder.empty());
  EXPECT_THAT(feeder.feed("\n"), ElementsAre("message a 0 hello"));
  EXPECT_TRUE(feeder.empty());
}

TEST(FrameReaderTest, ReadsWhatIsLargerThanItsBuffer) {
  const std::string body(3'000'000, 'x');
  const std::string bytes = "MSG a 1 3000000\r\n" + body + "\r\nPING\r\n";
  for (const std::size_t piece : {std::size_t{1'000}, std::size_t{100'000}, bytes.size()})
    EXPECT_EQ((std::vector<std::string>{"message a 0 " + body, "ping"}), Feeder().feed(bytes, piece));
}

TEST(FrameReaderTest, Security45_RefusesWhatIsNotTheProtocol) {
  EXPECT_THAT(refusal("HTTP/1.1 400 Bad Request\r\n"), HasSubstr("is the port right?"));
  for (const char* bytes : {"\r\n", "\n", "MSGS a 1 0\r\n\r\n", "MSG\r\n", "MSG a 1\r\n", "MSG a 1 b c 0\r\n",
                            "MSG a 1 x\r\n", "MSG a 1 -1\r\n", "MSG a 1 1x\r\n", "MSG a 1 99999999999999999999\r\n",
                            "MSG a 1 8388609\r\n", "MSG a 1 1\r\nabc", "MSG a 1 0\r\nPING", "HMSG a 1 5\r\n",
                            "HMSG a 1 6 5\r\nabcde\r\n", "HMSG a 1 b c 5 5\r\n", "SSH-2.0-OpenSSH_9.2p1\r\n"})
    EXPECT_THAT(refusal(bytes), HasSubstr("does not speak NATS")) << bytes;
  EXPECT_EQ("none", refusal("MSG a 1 8388608\r\n"));
}

TEST(FrameReaderTest, Security45_ALineWithoutAnEndIsRefusedInTime) {
  EXPECT_EQ("none", refusal("INFO " + std::string(60'000, 'x') + "\r\n"));
  EXPECT_THAT(refusal(std::string(70'000, 'x')), HasSubstr("does not end"));
  EXPECT_THAT(refusal("INFO " + std::string(70'000, 'x') + "\r\n"), HasSubstr("does not end"));
  EXPECT_THAT(refusal(std::string(70'000, '\0')), HasSubstr("does not end"));
}

// Whatever comes, and however: it is read the same, or refused the same.
void expect_same_however_cut(const std::string& bytes, std::size_t piece) {
  const auto outcome = [&](std::size_t most) {
    std::vector<std::string> frames;
    Feeder feeder;
    std::string_view left = bytes;
    try {
      while (!left.empty()) {
        const std::size_t count = std::min(most, left.size());
        for (auto& frame : feeder.feed(left.substr(0, count))) frames.push_back(std::move(frame));
        left.remove_prefix(count);
      }
    } catch (const Error&) {
      frames.clear();  // How many came before it depends on the pieces.
      frames.emplace_back("refused");
    }
    return frames;
  };
  RC_ASSERT(outcome(bytes.size()) == outcome(piece));
}

RC_GTEST_PROP(FrameReaderProperty, GarbageIsReadTheSameHoweverItIsCut, (const std::string& bytes)) {
  expect_same_however_cut(bytes, *rc::gen::inRange<std::size_t>(1, 20));
}

// Nearly the protocol: words of it in any order, with bytes changed, taken out and put in.
RC_GTEST_PROP(FrameReaderProperty, NearlyTheProtocolIsReadTheSameHoweverItIsCut, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "PING\r\n", "MSG a 1 3\r\nabc\r\n", "HMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n", "INFO {}\r\n", "-ERR 'x'\r\n",
      "MSG ", "HMSG ", "a ", "1 ", "2", "\r\n", "\r", "\n", " ", "\t", "'", "abc", "99999999999"));
  std::string bytes;
  for (const auto& part : parts) bytes += part;
  for (const auto at : *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, 200)))
    if (at < bytes.size()) bytes[at] = *rc::gen::arbitrary<char>();
  expect_same_however_cut(bytes, *rc::gen::inRange<std::size_t>(1, 20));
}

// --- Writing

TEST(FramesTest, AMessageIsWrittenWithItsHeadersAndSizes) {
  Message message;
  message.body = "12345";
  message.headers.add("a", "b");
  message.headers.add("Nats-Msg-Id", "7");
  std::string out;
  append_message(out, "orders.paid", "_INBOX.x.", 42, message);
  EXPECT_EQ("HPUB orders.paid _INBOX.x.42 34 39\r\nNATS/1.0\r\na: b\r\nNats-Msg-Id: 7\r\n\r\n12345\r\n", out);
}

TEST(FramesTest, AMessageCanBeEmpty) {
  std::string out;
  append_message(out, "s", "i.", 0, {});
  EXPECT_EQ("HPUB s i.0 12 12\r\nNATS/1.0\r\n\r\n\r\n", out);
}

TEST(FramesTest, RequestsAndSubscriptionsAreWritten) {
  std::string out;
  append_request(out, "$JS.API.INFO", "_INBOX.x.q1", "{}");
  append_subscription(out, "_INBOX.x.*", 1);
  EXPECT_EQ("PUB $JS.API.INFO _INBOX.x.q1 2\r\n{}\r\nSUB _INBOX.x.* 1\r\n", out);
}

TEST(FramesTest, TheSizeOnTheWireIsKnown) {
  Message message;
  message.body = "12345";
  message.headers.add("a", "b");
  EXPECT_EQ(std::string_view("NATS/1.0\r\na: b\r\n\r\n12345").size(), wire_size(message));
}

TEST(FrameReaderTest, AMessageTellsWhoseItIsAndWhereToAnswer) {
  FrameReader reader;
  const std::string bytes =
      "HMSG orders.paid 2 $JS.ACK.a 50 54\r\nNATS/1.0\r\nce-id: 1\r\nEmpty:\r\nno header\r\na: b: c\r\n\r\nbody\r\n"
      "MSG x 1 0\r\n\r\n";
  const auto room = reader.room();
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.filled(bytes.size());
  Frame frame;
  ASSERT_TRUE(reader.next(frame));
  EXPECT_EQ("orders.paid", frame.subject);
  EXPECT_EQ(2U, frame.subscription);
  EXPECT_EQ("$JS.ACK.a", frame.reply_to);
  EXPECT_EQ("body", frame.data);
  std::string headers;
  for (const Header& header : read_headers(frame.headers)) headers += header.name + "=" + header.value + ";";
  EXPECT_EQ("ce-id=1;Empty=;a=b: c;", headers);
  ASSERT_TRUE(reader.next(frame));
  EXPECT_EQ(1U, frame.subscription);
  EXPECT_EQ("", frame.reply_to);
  EXPECT_TRUE(read_headers(frame.headers).empty());
}

}  // namespace
}  // namespace waybill::nats
