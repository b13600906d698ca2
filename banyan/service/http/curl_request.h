// CurlRequest: what every HTTP request by libcurl has: its handle, the answer up to a length, and the words for what
// went wrong. For sources that are compiled where libcurl is.
//
// One thread at a time. No exception goes through libcurl, which calls it.
#pragma once

#include <curl/curl.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::service {

class CurlRequest {
 public:
  // `protocols`: that it may use. Throws Error{io} when libcurl cannot be set up.
  CurlRequest(const char* protocols, size_t longest_answer) : longest_(longest_answer) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    expect(ready);
    easy_.reset(curl_easy_init());
    headers_.reset(curl_slist_append(nullptr, "Content-Type: application/json"));
    if (!easy_ || !headers_) throw out_of_memory();
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, protocols);
    set(CURLOPT_NOPROXY, "*");  // a proxy of the environment is for other hosts
    set(CURLOPT_ERRORBUFFER, problem_.data());
    set(CURLOPT_WRITEFUNCTION, &take_bytes);
    set(CURLOPT_WRITEDATA, this);
  }
  CurlRequest(const CurlRequest&) = delete;
  CurlRequest& operator=(const CurlRequest&) = delete;

  CURL* handle() const { return easy_.get(); }
  template <typename Value>
  void set(CURLoption option, Value value) {
    expect(curl_easy_setopt(easy_.get(), option, value));
  }
  // Makes it a POST of this JSON, which it borrows.
  void set_body(const std::string& body) {
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_POSTFIELDS, body.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  template <typename Value>
  Value info(CURLINFO which) const {
    Value value{};
    expect(curl_easy_getinfo(easy_.get(), which, &value));
    return value;
  }
  // That has come since this was called last. Forgets what went wrong, too.
  std::string take_answer() {
    problem_.fill(0);
    return std::exchange(answer_, {});
  }
  // The text of a request that has ended with this. CURLE_WRITE_ERROR: the answer is too long.
  std::string problem(CURLcode why) const { return problem_[0] != 0 ? problem_.data() : curl_easy_strerror(why); }

  static void expect(CURLcode code) {
    if (code == CURLE_OUT_OF_MEMORY) throw out_of_memory();
    if (code != CURLE_OK) throw Error(ErrorCode::io, std::string("libcurl: ") + curl_easy_strerror(code));
  }

 private:
  static size_t take_bytes(char* bytes, size_t, size_t count, void* request) noexcept {
    auto& self = *static_cast<CurlRequest*>(request);
    if (self.answer_.size() + count > self.longest_) return 0;
    try {
      self.answer_.append(bytes, count);
    } catch (const std::exception&) {
      return 0;
    }
    return count;
  }
  struct CloseEasy {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  };
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  const size_t longest_;
  std::unique_ptr<CURL, CloseEasy> easy_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::array<char, CURL_ERROR_SIZE> problem_{};
  std::string answer_;
};

}  // namespace banyan::service
