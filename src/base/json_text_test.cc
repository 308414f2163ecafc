#include "base/json_text.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(JsonText, EscapesWhatJsonMustEscape) {
  EXPECT_EQ(R"("a\"b\\c\n\r\t\u0001\u007f")", json_string("a\"b\\c\n\r\t\x01\x7f"));
  EXPECT_EQ("\"häuser 🏥\"", json_string("häuser 🏥"));
}

TEST(JsonText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(R"("a\ufffdb")", json_string("a\xff"
                                         "b"));
  EXPECT_EQ(R"("\ufffd\ufffd")", json_string("\xc0\xaf"));
}

TEST(JsonText, KnowsText) {
  EXPECT_TRUE(is_text(""));
  EXPECT_TRUE(is_text("plain, häuser, 🏥"));
  EXPECT_FALSE(is_text(std::string_view("nul\0", 4)));
  EXPECT_FALSE(is_text("\x80"));              // continuation without a start
  EXPECT_FALSE(is_text("\xc0\xaf"));          // overlong
  EXPECT_FALSE(is_text("\xe0\x80\xaf"));      // overlong
  EXPECT_FALSE(is_text("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(is_text("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  EXPECT_FALSE(is_text("cut \xe2\x82"));
}

TEST(JsonText, Security45_KnowsJson) {
  for (const char* text :
       {"{}", "[]", "0", "-1.5e+3", "\"\"", "true", "null", " { \"a\" : [1, {\"b\": \"\\u00e9\\n\"}] } ", "\"häuser\""})
    EXPECT_TRUE(is_json(text)) << text;
  for (const char* text :
       {"",   " ",   "{",   "[1,]",    "{\"a\"}",     "{\"a\":}", "{a:1}",    "01",  "1.",        "+1",    ".5",
        "1e", "'a'", "\"a", "\"\\x\"", "\"\\u12g4\"", "\"\n\"",   "\"\xff\"", "nul", "truefalse", "{} {}", "NaN"})
    EXPECT_FALSE(is_json(text)) << text;
  EXPECT_TRUE(is_json(std::string(500, '[') + std::string(500, ']')));
  EXPECT_FALSE(is_json(std::string(501, '[') + std::string(501, ']')));
  EXPECT_FALSE(is_json(std::string(1'000'000, '[')));
}

TEST(JsonText, KnowsAnObject) {
  EXPECT_TRUE(is_json_object(" {\"a\":1}"));
  EXPECT_FALSE(is_json_object("[]"));
  EXPECT_FALSE(is_json_object("{"));
}

TEST(JsonText, TakesAString) {
  const auto taken = [](std::string_view text) -> std::string {
    std::string decoded;
    const auto spelled = take_json_string(text, decoded);
    return spelled ? std::string(*spelled) + '|' + std::string(text) : "none";
  };
  EXPECT_EQ(R"(ab|, "c")", taken(R"("ab", "c")"));
  EXPECT_EQ("|", taken(R"("")"));
  EXPECT_EQ("a\"\\/\b\f\n\r\tz|", taken(R"("a\"\\\/\b\f\n\r\tz")"));
  EXPECT_EQ("aAü€😀b|", taken(R"("a\u0041\u00fc\u20AC\ud83d\ude00b")"));
  EXPECT_EQ("ü😀|", taken(R"("ü😀")"));
  for (const char* text : {"", "a", "\"", R"("a)", R"("\)", R"("\x")", R"("\u12")", R"("\u12G4")", R"("\ud800")",
                           R"("\ud800\u0041")", R"("\udc00")", "\"\xff\"", "\"\n\""})
    EXPECT_EQ("none", taken(text)) << text;
}

TEST(JsonText, Base64) {
  const auto encoded = [](std::string_view bytes) {
    std::string out;
    append_base64(out, bytes);
    return out;
  };
  EXPECT_EQ("", encoded(""));
  EXPECT_EQ("Zg==", encoded("f"));
  EXPECT_EQ("Zm8=", encoded("fo"));
  EXPECT_EQ("Zm9v", encoded("foo"));
  EXPECT_EQ("Zm9vYmFy", encoded("foobar"));
  EXPECT_EQ("/w==", encoded("\xff"));
}

}  // namespace
}  // namespace waybill
