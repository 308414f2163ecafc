#include "config/secret.h"

#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill::config {
namespace {

TEST(RedactUrl, Security31_HidesPasswordsAndNothingElse) {
  EXPECT_EQ("postgresql://relay:********@db/clinic", redact_url("postgresql://relay:s3cret@db/clinic"));
  EXPECT_EQ("postgresql://relay@db/clinic", redact_url("postgresql://relay@db/clinic"));
  EXPECT_EQ("postgresql://db:5432/clinic", redact_url("postgresql://db:5432/clinic"));
  EXPECT_EQ("postgresql://u@db:5432/c?x=a@b", redact_url("postgresql://u@db:5432/c?x=a@b"));
  EXPECT_EQ("sqlite:clinic.db", redact_url("sqlite:clinic.db"));
  EXPECT_EQ("postgresql://db/c?user=a&password=********&sslpassword=********",
            redact_url("postgresql://db/c?user=a&password=s3cret&sslpassword=other"));
  EXPECT_EQ("amqp://u:********@a,b/v", redact_url("amqp://u:p@ss/w:rd@a,b/v"));
  EXPECT_EQ("postgresql://u:********@db/c?password=********", redact_url("postgresql://u:a@db/c?password=b"));
}

// One of the two was shown in part, and some texts ended the program.
TEST(RedactUrl, Security31_HidesSecretsThatOverlap) {
  EXPECT_EQ("postgresql://u:********", redact_url("postgresql://u:a&password=b#secret@db/x?password=c"));
  EXPECT_EQ("a&password=********", redact_url("a&password=postgresql://u:secret@db/x?passw22"));
}

TEST(RedactUrl, Security31_KnowsEveryWayToWriteAPassword) {
  for (const char* text : {
           "postgresql://db/c?pass%77ord=s3cret",
           "postgresql://db/c?PASSWORD=s3cret",
           "postgresql://db/c?sslpassword=s3cret#s3cret",
           "postgresql://db/c?x=1&oauth_client_secret=s3cret&y=2",
           "postgresql://u:s3cret@db/c?password=s3cret@s3cret",
           "host=db password=s3cret user=u",
           "host=db password = 's3 s3cret' user=u",
           "user=u pass%77ord=s3cret",
           "nats://u:s3cret@a:4222,nats://v:s3cret@b:4222",
           "destinations.x.password=s3cret s3cret",
       }) {
    EXPECT_EQ(std::string::npos, redact_url(text).find("s3cret")) << text;
    EXPECT_NE("", url_password(text)) << text;
  }
  EXPECT_EQ("postgresql://db/c?pass%77ord=********&x=1", redact_url("postgresql://db/c?pass%77ord=s3cret&x=1"));
  for (const char* text : {"", "=", "=x", "a=b", "postgresql://db/c?passfile=/etc/pgpass", "password_file=/run/p",
                           "password=", "100%=a", "topic.*"})
    EXPECT_EQ(text, redact_url(text));
}

TEST(RedactAddress, NeedsNoScheme) {
  EXPECT_EQ("u:********@h:4222", redact_address("u:s3cret@h:4222"));
  EXPECT_EQ("nats://u:********@h:4222", redact_address("nats://u:s3cret@h:4222"));
  EXPECT_EQ("h:4222", redact_address("h:4222"));
}

TEST(UrlPassword, IsFoundInBothPlaces) {
  EXPECT_EQ("s3cret", url_password("postgresql://relay:s3cret@db/clinic"));
  EXPECT_EQ("s3cret", url_password("postgresql://db/clinic?password=s3cret"));
  EXPECT_EQ("", url_password("postgresql://relay@db/clinic"));
}

TEST(Expand, ReplacesReferences) {
  const Lookup environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "PW") return "s3cret";
    return std::nullopt;
  };
  EXPECT_EQ("plain $PW {x}", expand("plain $PW {x}", environment));
  EXPECT_EQ("s3cret", expand("${env:PW}", environment));
  EXPECT_EQ("a:s3cret@b/s3cret", expand("a:${env:PW}@b/${env:PW}", environment));
  EXPECT_THROW(expand("${env:NONE}", environment), Error);
  EXPECT_THROW(expand("${env:PW", environment), Error);
  EXPECT_THROW(expand("${env:}", environment), Error);
}

}  // namespace
}  // namespace waybill::config
