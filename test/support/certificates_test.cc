#include "support/certificates.h"

#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace waybill {
namespace {

using std::filesystem::path;

class CertificatesTest : public testing::Test {
 protected:
  // What openssl says against it; empty if it is good.
  static std::string complaint(const path& ca, const path& certificate, const std::vector<std::string>& more) {
    std::vector<std::string> command{"openssl", "verify", "-CAfile", ca.string()};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back(certificate.string());
    try {
      run_command(command);
      return {};
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  static std::string as_server(const path& ca, const path& certificate, const std::string& host = "localhost") {
    return complaint(ca, certificate, {"-purpose", "sslserver", "-verify_hostname", host});
  }
  static bool complains(const std::string& text, const std::string& of) { return text.find(of) != std::string::npos; }

  // One key fits one certificate only.
  static void expect_to_fit(const Certificates::Pair& pair) {
    const std::string compare =
        "test \"$(openssl x509 -noout -pubkey -in \"$0\")\" = \"$(openssl pkey -pubout -in \"$1\")\"";
    EXPECT_NO_THROW(run_command({"sh", "-c", compare, pair.certificate.string(), pair.key.string()})) << pair.key;
  }

  static const Certificates& certificates() {
    static const Certificates made;
    return made;
  }
};

TEST_F(CertificatesTest, TheServersIsGoodForThisMachine) {
  const auto& c = certificates();
  EXPECT_EQ("", as_server(c.ca(), c.server().certificate));
  EXPECT_EQ("", complaint(c.ca(), c.server().certificate, {"-purpose", "sslserver", "-verify_ip", "127.0.0.1"}));
  EXPECT_TRUE(complains(as_server(c.ca(), c.server().certificate, "broker.example"), "ostname mismatch"));
  EXPECT_TRUE(complains(as_server(c.other_ca(), c.server().certificate), "unable to get local issuer"));
}

TEST_F(CertificatesTest, TheOthersAreBadInOneWayOnly) {
  const auto& c = certificates();
  EXPECT_TRUE(complains(as_server(c.ca(), c.expired().certificate), "certificate has expired"));
  EXPECT_EQ("", complaint(c.ca(), c.expired().certificate,
                          {"-purpose", "sslserver", "-verify_ip", "127.0.0.1", "-no_check_time"}));
  EXPECT_TRUE(complains(as_server(c.ca(), c.other_host().certificate), "ostname mismatch"));
  EXPECT_EQ("", as_server(c.ca(), c.other_host().certificate, "broker.example"));
  EXPECT_TRUE(complains(as_server(c.ca(), c.other_server().certificate), "unable to get local issuer"));
  EXPECT_EQ("", as_server(c.other_ca(), c.other_server().certificate));
}

mode_t mode_of(const path& file) {
  struct stat found {};
  EXPECT_EQ(0, ::stat(file.c_str(), &found)) << file;
  return found.st_mode & 0777;
}

TEST_F(CertificatesTest, TheClientsIsAClients) {
  const auto& c = certificates();
  EXPECT_EQ("", complaint(c.ca(), c.client().certificate, {"-purpose", "sslclient"}));
  EXPECT_EQ("", complaint(c.other_ca(), c.other_client().certificate, {"-purpose", "sslclient"}));
  EXPECT_TRUE(complains(as_server(c.ca(), c.client().certificate), "unsuitable certificate purpose"));
  const std::string find = "openssl x509 -noout -subject -in \"$0\" | grep -q 'CN = waybill-client$'";
  EXPECT_NO_THROW(run_command({"sh", "-c", find, c.client().certificate.string()}));
}

// Servers are run as other users, so everybody may read theirs; a client's key that others can read is refused.
TEST_F(CertificatesTest, KeysFitAndAClientsIsItsOwnersAlone) {
  const auto& c = certificates();
  for (const auto& pair : {c.server(), c.client(), c.expired(), c.other_host(), c.other_server(), c.other_client()}) {
    expect_to_fit(pair);
    for (const path& file : {pair.certificate, c.ca(), c.other_ca()}) EXPECT_EQ(0644U, mode_of(file)) << file;
  }
  for (const auto& pair : {c.server(), c.expired(), c.other_host(), c.other_server()})
    EXPECT_EQ(0644U, mode_of(pair.key)) << pair.key;
  for (const auto& pair : {c.client(), c.other_client()}) EXPECT_EQ(0600U, mode_of(pair.key)) << pair.key;
}

}  // namespace
}  // namespace waybill
