// The way to the server: names and addresses, and whether it is who it says.

#include <filesystem>

#include "waybill/relay.h"

#include "postgres/deliveries.h"
#include "postgres/postgres_fixture.h"
#include "support/child_process.h"

namespace waybill {
namespace {

using testing::HasSubstr;

// --- Names and addresses

class AddressesTest : public PostgresTest {};

// 45: the first address is dead, as IPv6 often is; the second name is none; the third is good. And so at each
// reconnect.
TEST_F(AddressesTest, Row45_EveryAddressIsTriedAtEveryConnection) {
  const std::string port = std::to_string(server.port());
  const auto by_names =
      postgres_store({.url = "host=::1,no-such-host.invalid,127.0.0.1 port=" + port + "," + port + "," + port +
                             " user=postgres dbname=" + app("SELECT current_database()")});
  Deliveries deliveries;
  Relay relay(*by_names, {.name = "test"});
  relay.add({.name = "out"}, deliveries.sink());
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  for (int i = 1; i <= 3; ++i) {
    put(std::to_string(i));
    ASSERT_TRUE(eventually([&] { return deliveries.distinct() == static_cast<std::size_t>(i); }, 60s));
    app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'waybill %' AND datname = "
        "current_database()");
  }
  EXPECT_EQ(0, deliveries.out_of_order());
}

// --- Certificates

// Those of a server, made anew at will.
class Certificates {
 public:
  Certificates() { renew_authority(); }

  void renew_authority() {
    openssl("req -x509 " + key + " -keyout ca.key -out ca.crt -subj /CN=authority -days 10");
    publish_server("IP:127.0.0.1", 10);
  }
  void publish_server(const std::string& name, int days) {
    openssl("req " + key + " -keyout new.key -out new.csr -subj /CN=server -addext subjectAltName=" + name);
    openssl("x509 -req -in new.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -out new.crt -days " +
            std::to_string(days));
    for (const char* what : {"key", "crt"})
      std::filesystem::rename(folder_.path() + "/new." + what, folder_.path() + "/server." + what);
  }
  // What whoever connects trusts from here on.
  void trust_authority() {
    std::filesystem::copy_file(folder_.path() + "/ca.crt", folder_.path() + "/trusted.crt",
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::vector<std::string> settings() const {
    return {"ssl=on", "ssl_cert_file=" + folder_.path() + "/server.crt",
            "ssl_key_file=" + folder_.path() + "/server.key"};
  }
  std::string trusted() const { return folder_.path() + "/trusted.crt"; }

 private:
  static inline const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  void openssl(const std::string& command) {
    run_command({"sh", "-c", "cd " + folder_.path() + " && openssl " + command + " 2>openssl.log"}, "postgres");
  }

  TmpFolder folder_{"postgres"};
};

// 47: who cannot show a good certificate is not talked to; what is trusted is read from disk at each connection.
TEST(CertificatesTest, Row47_Security21_OnlyAServerWithAGoodCertificateIsTalkedTo) {
  Certificates certificates;
  certificates.trust_authority();
  TmpPostgres server(false, certificates.settings());
  const std::string url = server.fresh_database();
  const auto store =
      postgres_store({.url = url + "?sslmode=verify-full&sslrootcert=" + certificates.trusted(), .shards = 1});
  store->schema()->migrate();
  EXPECT_EQ("", why_unreadable(*store));
  Sql admin(url + "?sslmode=disable");
  // The server takes up its new files for those who connect from then on.
  const auto reloaded = [&](const std::string& expected) {
    admin("SELECT pg_reload_conf()");
    const auto as_expected = [&] {
      const std::string text = why_unreadable(*store);
      return expected.empty() ? text.empty() : text.find(expected) != std::string::npos;
    };
    EXPECT_TRUE(eventually(as_expected, 30s)) << why_unreadable(*store);
  };

  certificates.publish_server("IP:127.0.0.2", 10);
  reloaded("server certificate");
  certificates.publish_server("IP:127.0.0.1", -1);
  reloaded("certificate verify failed");
  certificates.publish_server("IP:127.0.0.1", 10);
  reloaded("");
  certificates.renew_authority();
  reloaded("certificate verify failed");
  certificates.trust_authority();
  EXPECT_TRUE(eventually([&] { return why_unreadable(*store).empty(); }, 30s)) << why_unreadable(*store);
}

}  // namespace
}  // namespace waybill
