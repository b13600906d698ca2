#include "banyan/service/http/shared_answers.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class SharedAnswers : public ::testing::Test {
 protected:
  HttpServer::Handler shared(milliseconds time) {
    return shared_for(reactor_, time, {"/a", "/b"}, [this](const HttpRequest& request, HttpServer::Reply reply) {
      asked_.push_back(request.method + " " + request.path);
      if (request.path == "/b" && refuses_) throw Error(ErrorCode::not_found, "no");
      last_ = std::move(reply);
    });
  }
  void ask(const HttpServer::Handler& handler, const std::string& path, const std::string& method = "GET") {
    handler({.method = method, .path = path, .query = {}, .host = "", .body = ""},
            [this](const HttpResponse& response) {
              answers_.push_back(response.shared_body ? *response.shared_body : response.body);
              bodies_.insert(response.shared_body);
            });
  }

  run::Reactor reactor_;
  std::vector<std::string> asked_, answers_;
  std::set<std::shared_ptr<const std::string>> bodies_;
  HttpServer::Reply last_;
  bool refuses_ = false;
};

TEST_F(SharedAnswers, AreOneForAllWhoAskMeanwhile) {
  const HttpServer::Handler handler = shared(seconds(600));
  for (int i = 0; i < 60; ++i) ask(handler, "/a");
  EXPECT_THAT(asked_, ElementsAre("GET /a"));
  EXPECT_TRUE(answers_.empty());
  last_({.body = "first"});
  EXPECT_EQ(answers_, std::vector<std::string>(60, "first"));
  ask(handler, "/a");
  EXPECT_EQ(answers_.size(), 61u);
  EXPECT_THAT(asked_, ElementsAre("GET /a"));
  last_({.body = "again"});
  EXPECT_EQ(answers_.size(), 61u) << "the first call counts";
  EXPECT_EQ(bodies_.size(), 1u) << "nobody has a copy";
  ask(handler, "/b");
  EXPECT_THAT(asked_, ElementsAre("GET /a", "GET /b"));
}

TEST_F(SharedAnswers, GetOld) {
  const HttpServer::Handler handler = shared(milliseconds(0));
  for (const char* const body : {"first", "second"}) {
    ask(handler, "/a");
    last_({.body = body});
  }
  EXPECT_THAT(answers_, ElementsAre("first", "second"));
}

TEST_F(SharedAnswers, AreForNothingElse) {
  const HttpServer::Handler handler = shared(seconds(600));
  for (const char* const path : {"/c", "/c"}) {
    ask(handler, path);
    last_({.body = path});
  }
  ask(handler, "/a", "POST");
  ask(handler, "/a", "POST");
  EXPECT_THAT(asked_, ElementsAre("GET /c", "GET /c", "POST /a", "POST /a"));
}

TEST_F(SharedAnswers, ThatNobodyGivesAreAskedForAgain) {
  const HttpServer::Handler handler = shared(seconds(600));
  ask(handler, "/a");
  last_ = {};  // whose end answers who waits
  ask(handler, "/a");
  refuses_ = true;
  EXPECT_THROW(ask(handler, "/b"), Error);
  EXPECT_THROW(ask(handler, "/b"), Error);
  EXPECT_THAT(asked_, ElementsAre("GET /a", "GET /a", "GET /b", "GET /b"));
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace banyan::service
