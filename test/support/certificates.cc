#include "support/certificates.h"

#include <string>

namespace waybill {
namespace {

// `issue NAME CA SUBJECT EXTENSION…`: a key and a certificate of their own. What is expired needs `openssl ca`, the
// only command that is told when a certificate begins and ends.
constexpr const char* script = R"__(
set -e
cd "$1"
days=$3
new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config openssl.cnf"
local_names=subjectAltName=IP:127.0.0.1,DNS:localhost
cat > openssl.cnf <<'END'
[req]
distinguished_name = subject
[subject]
[ca]
default_ca = expired
[expired]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
END
authority() {
  openssl req -x509 $new_key -keyout $1.key -out $1.pem -days "$days" -subj "/CN=$2" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}
issue() {
  openssl req -x509 $new_key -CA $2.pem -CAkey $2.key -keyout $1.key -out $1.pem -days "$days" -subj "/CN=$3" \
    -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=$4 -addext $5
}
authority ca "Waybill test CA"
authority other_ca "Another test CA"
issue server ca localhost serverAuth $local_names
issue other_host ca broker.example serverAuth subjectAltName=DNS:broker.example
issue client ca "$2" clientAuth subjectAltName=DNS:"$2"
issue other_server other_ca localhost serverAuth $local_names
issue other_client other_ca "$2" clientAuth subjectAltName=DNS:"$2"
openssl req -new $new_key -keyout expired.key -out expired.csr -subj /CN=localhost \
  -addext extendedKeyUsage=serverAuth -addext $local_names
: > index
echo 1000 > serial
openssl ca -config openssl.cnf -batch -notext -cert ca.pem -keyfile ca.key -in expired.csr -out expired.pem \
  -startdate "$(date -u -d '-10 days' +%y%m%d%H%M%SZ)" -enddate "$(date -u -d '-1 day' +%y%m%d%H%M%SZ)"
chmod 644 *.pem *.key
chmod 600 client.key other_client.key
)__";

}  // namespace

Certificates::Certificates() {
  run_command({"sh", "-c", script, "certificates", folder_.path(), client_name, std::to_string(days.count())});
}

}  // namespace waybill
