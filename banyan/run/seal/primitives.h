// The primitives of libcrypto that handshakes and seals are made of. All are deterministic but those that draw.
//
// Any thread. All throw Error{io} when libcrypto cannot do its work, which is when memory is short, or its provider of
// algorithms is not there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace banyan::run {

std::string random_bytes(size_t count);
std::string sha256(std::string_view message);
std::string hmac_sha256(std::string_view key, std::string_view message);
// RFC 5869. At most 8160 bytes.
std::string hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info, size_t count);
// In time that does not depend on where the two differ.
bool are_equal_secrets(std::string_view a, std::string_view b);
// Overwrites what was secret, also where the compiler sees that nobody reads it any more.
void wipe(void* bytes, size_t count);
// Hexadecimal digits, drawn.
std::string random_name(size_t digits);

// For calls of libcrypto that return 1 when they have worked: throws Error{io} with what libcrypto says.
void demand_of_libcrypto(bool has_worked, const char* what);

}  // namespace banyan::run
