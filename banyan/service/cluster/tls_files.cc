// EtcdDirectory::Tls: whether its files can be used, before etcd is asked. libcurl says so at the first question only,
// and then it looks as if etcd did not answer.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/service/cluster/etcd_directory.h"

namespace banyan::service {
namespace {

constexpr uint64_t kLongest = uint64_t{4} << 20;

struct Free {
  void operator()(BIO* bytes) const { BIO_free(bytes); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bytes = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

// Which variable named it.
template <typename Read>
auto from_file(const std::string& variable, const std::string& path, Read read) {
  try {
    const std::string text = read_file(path, kLongest);
    const Bytes bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    if (!bytes) throw out_of_memory();
    auto found = read(bytes.get());
    ERR_clear_error();
    if (!found) throw Error(ErrorCode::invalid_input, "has no " + std::string(read.kWhat) + " in the PEM format", path);
    return found;
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_input, error.what(), variable);  // also where it is missing, or not to be read
  }
}

struct ReadCertificate {
  static constexpr const char* kWhat = "certificate";
  Certificate operator()(BIO* bytes) const { return Certificate(PEM_read_bio_X509(bytes, nullptr, nullptr, nullptr)); }
};

// One with a password is none here: nobody is there to be asked.
struct ReadKey {
  static constexpr const char* kWhat = "key without a password";
  Key operator()(BIO* bytes) const {
    const auto no_password = [](char*, int, int, void*) { return -1; };
    return Key(PEM_read_bio_PrivateKey(bytes, nullptr, no_password, nullptr));
  }
};

}  // namespace

void EtcdDirectory::Tls::expect_usable() const {
  if (!ca.empty()) from_file("ETCDCTL_CACERT", ca, ReadCertificate());
  if (certificate.empty() != key.empty()) {
    throw Error(ErrorCode::invalid_input, "ETCDCTL_CERT and ETCDCTL_KEY go together, and one of them is not set");
  }
  if (certificate.empty()) return;
  const Certificate own = from_file("ETCDCTL_CERT", certificate, ReadCertificate());
  const Key own_key = from_file("ETCDCTL_KEY", key, ReadKey());
  if (X509_check_private_key(own.get(), own_key.get()) != 1) {
    ERR_clear_error();
    throw Error(ErrorCode::invalid_input, key + " is not the key of " + certificate, "ETCDCTL_KEY");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0) {
    throw Error(ErrorCode::invalid_input, "the certificate has expired", "ETCDCTL_CERT: " + certificate);
  }
}

}  // namespace banyan::service
