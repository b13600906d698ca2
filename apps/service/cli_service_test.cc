// `banyan service` against an operator's socket that answers as the tests say.

#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/service/test_service_view.h"
#include "apps/test_banyan_process.h"
#include "banyan/service/http/test_server.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using service::HttpRequest;
using service::HttpResponse;
using Json = nlohmann::json;

class ServiceCli : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // What is answered to "POST /v1/set" from now on.
  void answer(const std::string& question, HttpResponse response) {
    const std::lock_guard lock(mutex_);
    answers_[question] = std::move(response);
  }
  void answer(const std::string& question, const std::string& body) { answer(question, HttpResponse{.body = body}); }
  void show(const service::ClusterView& view) { answer("GET /v1/cluster", service::to_json(view)); }

  // "POST /v1/set {...}" of all that was asked.
  Words asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  Words with_url(Words words) const {
    words.insert(words.begin(), "service");
    words.insert(words.end(), {"--at", server_.url()});
    return words;
  }
  Outcome run(const Words& words) const { return run_banyan(with_url(words)); }
  void refuses(const Words& words, const std::string& reason) const { expect_refused(with_url(words), reason); }

  TemporaryFolder folder_;

 private:
  // Unless a test says otherwise, each view of the cluster is a second later than the one before.
  HttpResponse respond(const HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::string question = request.method + " " + request.path;
    asked_.push_back(question + (request.body.empty() ? "" : " " + request.body));
    const auto known = answers_.find(question);
    if (known != answers_.end()) return known->second;
    if (question == "GET /v1/cluster") return {.body = service::to_json(service_view(++views_))};
    return service::http_error(404, "there is nothing at '" + request.path + "'");
  }

  std::mutex mutex_;  // protects what follows from the server's thread
  std::map<std::string, HttpResponse> answers_;
  Words asked_;
  double views_ = 10;
  const service::TestServer server_{
      service::Family::unix_socket,
      [this](const HttpRequest& request, const service::HttpServer::Reply& reply) { reply(respond(request)); }};
};

// ---- Views ----

TEST_F(ServiceCli, StatusShowsAHealthyServiceAndEndsWith0) {
  const Outcome outcome = run({"status"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(StartsWith("healthy"), HasSubstr("\njob17 "), HasSubstr("\nb ")));
  EXPECT_THAT(asked(), ElementsAre("GET /v1/cluster"));
}

TEST_F(ServiceCli, StatusSaysWhatIsWrongAndEndsWith1) {
  service::ClusterView view = service_view(10);
  view.findings = {{.kind = "late rank", .communicator = "7f3a", .words = "rank 1 of 'job17' is late"}};
  show(view);
  const Outcome outcome = run({"status"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith("late rank  rank 1 of 'job17' is late\n"));
}

TEST_F(ServiceCli, StatusAsJsonIsWhatTheDaemonSays) {
  Json view = Json::parse(service::to_json(service_view(10)));
  view["from_tomorrow"] = 7;
  answer("GET /v1/cluster", view.dump());
  const Outcome outcome = run({"status", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Json::parse(outcome.out), view);
}

TEST_F(ServiceCli, TenantsAndLinksComeFromTwoViews) {
  const Outcome tenants = run({"tenants", "--interval", "50ms"});
  EXPECT_EQ(tenants.exit_code, 0) << tenants.err;
  EXPECT_THAT(tenants.out, AllOf(HasSubstr("\nvgg "), HasSubstr(" 75.0 %"), HasSubstr(" 80.0 %")));
  const Outcome links = run({"links", "--interval", "50ms"});
  EXPECT_THAT(links.out, HasSubstr("\nsw->a  75 %"));
  const Json json = Json::parse(run({"links", "--interval", "50ms", "--json"}).out);
  EXPECT_EQ(json["seconds"], 1);
  EXPECT_EQ(json["links"][0]["full"], 0.75);
  EXPECT_EQ(asked().size(), 6u);
  refuses({"tenants", "--interval", "1"}, "--interval: ");
  refuses({"tenants", "--interval", "1ms"}, "give 50ms or more");
}

TEST_F(ServiceCli, TenantsNeedAClockThatGoesOn) {
  show(service_view(10));
  refuses({"tenants", "--interval", "50ms"}, "the clock of the daemon's host was set back meanwhile; ask again");
}

TEST_F(ServiceCli, TopIsALiveScreenThatEndsWithQ) {
  const Outcome outcome =
      run_banyan_with_typist(with_url({"top", "--interval", "50ms"}), {{"#####", "\t"}, {"> 2 communicators", "jq"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("banyan service top"), HasSubstr("###"), HasSubstr("sw->a")));
}

TEST_F(ServiceCli, TopEndsWithCtrlCAndSaysSo) {
  EXPECT_EQ(run_banyan_with_typist(with_url({"top"}), {{"job17", "\x03"}}).exit_code, 130);
}

TEST_F(ServiceCli, TopNeedsATerminalThatIsKnown) {
  refuses({"top"}, "'top' needs a terminal");
  const Outcome outcome = run_banyan_on_terminal(with_url({"top"}), {"TERM=none-such"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("no terminal is called 'none-such'; set TERM"));
}

// ---- Whoever is no daemon ----

TEST_F(ServiceCli, NamesTheDaemonThatDoesNotAnswer) {
  const std::string nobody = "unix:" + folder_.path("operator.sock");
  expect_refused({"service", "status", "--at", nobody}, nobody);
  expect_refused({"service", "top", "--at", "nonsense"}, "'top' needs a terminal");
  expect_refused({"service", "status", "--at", "nonsense"}, "nonsense");
}

TEST_F(ServiceCli, SaysWhatItCannotRead) {
  answer("GET /v1/cluster", "<html>hello</html>");
  refuses({"status"}, "(is it banyand of this version?)");
  Json view = Json::parse(service::to_json(service_view(10)));
  view["communicators"][1]["ranks"][0].erase("process");
  answer("GET /v1/cluster", view.dump());
  refuses({"status"}, "communicators[1].ranks[0] has no \"process\"");
  answer("GET /v1/cluster", HttpResponse{.status = 502, .body = "bad gateway"});
  refuses({"status"}, "answers GET /v1/cluster with HTTP status 502 and no words; is it banyand?");
  answer("POST /v1/drain", "[]");
  refuses({"drain"}, "answers no object");
  answer("POST /v1/drain", R"({"hosts": [{"name": "a"}], "unreachable": []})");
  refuses({"drain"}, "answers a host without \"host\"");
  answer("GET /v1/rules", "{}");
  refuses({"rules", "show"}, "answers rules without \"text\"");
}

TEST_F(ServiceCli, SaysWhatTheDaemonRefuses) {
  answer("POST /v1/drain", service::http_error(403, "here one may look only"));
  refuses({"drain"}, "banyand refuses it: here one may look only");
}

// ---- Wishes ----

TEST_F(ServiceCli, SetTellsAllHosts) {
  answer("POST /v1/set",
         R"({"hosts": [{"host": "a", "sessions": 2}, {"host": "b", "sessions": 1}], "unreachable": []})");
  const Outcome outcome = run({"set", "vgg", "--weight", "4", "--class", "high", "--cap", "1GB/s"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "tenant     vgg: weight 4, class high, cap 1 GB/s, until the daemons end\n"
            "a          2 sessions\nb          1 session\n");
  EXPECT_THAT(asked(), ElementsAre(R"(POST /v1/set {"tenant":"vgg","weight":4,"class":"high","cap":"1 GB/s"})"));
  EXPECT_EQ(run({"set", "vgg", "--reset"}).exit_code, 0);
  EXPECT_EQ(asked().back(), R"(POST /v1/set {"tenant":"vgg","reset":true})");
  EXPECT_EQ(Json::parse(run({"set", "vgg", "--weight", "1", "--json"}).out)["hosts"][1]["sessions"], 1);
}

TEST_F(ServiceCli, SetSaysWhenItConcernsNobody) {
  answer("POST /v1/set", R"({"hosts": [{"host": "a", "sessions": 0}], "unreachable": []})");
  const Outcome outcome = run({"set", "vgh", "--weight", "4"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "banyan: no communicator of tenant 'vgh' is open now (did you mean 'vgg'?)\n");
}

TEST_F(ServiceCli, SetAsksNothingThatIsWrong) {
  refuses({"set", "vgg"}, "what is to be set?");
  refuses({"set", "vgg", "--weight", "0"}, "--weight");
  refuses({"set", "vgg", "--weight", "1", "--reset"}, "exclude each other");
  refuses({"set"}, "TENANT is required");
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(ServiceCli, NamesHostsThatRefuseOrAreUnreachable) {
  answer(
      "POST /v1/drain",
      R"({"hosts": [{"host": "a"}, {"host": "b", "error": "it is ending"}], "unreachable": [{"host": "c", "why": "it has not answered"}]})");
  const Outcome outcome = run({"drain"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out,
            "a          opens no more communicators\nb          refuses it: it is ending\n"
            "c          unreachable: it has not answered\n");
  EXPECT_THAT(asked(), ElementsAre(R"(POST /v1/drain {"drain":true})"));
}

TEST_F(ServiceCli, DrainTakesHostsAndCanBeUndone) {
  answer("POST /v1/drain", R"({"hosts": [{"host": "a"}, {"host": "b"}], "unreachable": []})");
  const Outcome outcome = run({"drain", "a", "b", "--undo"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("b          opens communicators again\n"));
  EXPECT_THAT(asked(), ElementsAre(R"(POST /v1/drain {"drain":false,"hosts":["a","b"]})"));
}

TEST_F(ServiceCli, UpgradeSaysWhoHasTakenOverAndWhoHasNot) {
  answer("POST /v1/upgrade", R"({"hosts": [{"host": "a", "process": 4711, "sessions": 2}], "unreachable": []})");
  const Outcome outcome = run({"upgrade", "a"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "a          process 4711 has taken over; 2 sessions are still with the daemon of before\n");
  EXPECT_THAT(asked(), ElementsAre(R"(POST /v1/upgrade {"hosts":["a"]})"));
  EXPECT_EQ(Json::parse(run({"upgrade", "--json"}).out)["hosts"][0]["process"], 4711);
  EXPECT_EQ(asked().back(), "POST /v1/upgrade {}");
  answer("POST /v1/upgrade",
         R"({"hosts": [{"host": "a", "error": "'/opt/banyand' has ended with exit code 2"}], "unreachable": []})");
  const Outcome refused = run({"upgrade"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out, "a          refuses it: '/opt/banyand' has ended with exit code 2\n");
}

TEST_F(ServiceCli, ReplanSaysWhatHasBecomeOfIt) {
  answer(
      "POST /v1/replan",
      R"({"hosts": [{"host": "a", "communicators": [{"id": "7f3a", "name": "job17", "generation": 2, "refusal": ""}]},
                       {"host": "b", "communicators": []}], "unreachable": []})");
  const std::string plan = folder_.write("plan.json", "{\"banyan\": \"schedule/1\"}");
  const Outcome outcome = run({"replan", "job*", "--avoid", "a-sw", "--avoid", "b-sw", "--restore", "c-sw",
                               "--bandwidth", "d-sw=1GB/s", "--plan", plan});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("job17         7f3a      2  goes by new plans\n"));
  const Json body = Json::parse(asked().front().substr(std::string("POST /v1/replan ").size()));
  EXPECT_EQ(body, Json::parse(R"({"communicator": "job*", "avoid": ["a-sw", "b-sw"], "restore": ["c-sw"],
                                  "bandwidth": {"d-sw": "1 GB/s"}, "plan": "{\"banyan\": \"schedule/1\"}"})"));
}

TEST_F(ServiceCli, ReplanSaysWhatAWishDoesNotDo) {
  answer("POST /v1/replan",
         R"({"hosts": [{"host": "a", "communicators": [{"id": "7f3a", "name": "job17", "generation": 3,
      "refusal": "", "note": "c-sw is lost"}]}], "unreachable": []})");
  const Outcome outcome = run({"replan", "job17", "--restore", "c-sw"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("goes by new plans; c-sw is lost\n"));
}

TEST_F(ServiceCli, ReplanEndsWith1WhereACommunicatorKeepsItsPlansOrThereIsNone) {
  answer(
      "POST /v1/replan",
      R"({"hosts": [{"host": "a", "communicators": [{"id": "7f3a", "name": "job17", "generation": 1, "refusal": "no way"}]}],
             "unreachable": []})");
  const Outcome kept = run({"replan", "job17", "--avoid", "a-sw"});
  EXPECT_EQ(kept.exit_code, 1);
  EXPECT_THAT(kept.out, HasSubstr("keeps its plans: no way"));
  answer("POST /v1/replan", R"({"hosts": [{"host": "a", "communicators": []}], "unreachable": []})");
  const Outcome nobody = run({"replan", "jbo17", "--avoid", "a-sw"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_EQ(nobody.err, "banyan: no communicator is called 'jbo17' (did you mean 'job17'?)\n");
  service::ClusterView view = service_view(10);
  view.communicators.push_back(direct_communicator());
  answer("GET /v1/cluster", to_json(view));
  EXPECT_EQ(
      run({"replan", "local", "--avoid", "a-sw"}).err,
      "banyan: the ranks of 'local' are all on one host and exchange in its memory: there are no plans to replace\n");
  refuses({"replan", "job17"}, "what is to change?");
  refuses({"replan", "job17", "--plan", folder_.path("none")}, "--plan " + folder_.path("none"));
}

// ---- Rules ----

constexpr const char* kRules = R"({"version": 8, "rules": [{"name": "batch", "match": {}, "then": {"weight": 4}}]})";

TEST_F(ServiceCli, RulesAreShownAsTheyAre) {
  answer("GET /v1/rules", Json({{"version", 8}, {"text", kRules}}).dump());
  EXPECT_EQ(run({"rules", "show"}).out, std::string(kRules) + "\n");
  EXPECT_EQ(Json::parse(run({"rules", "show", "--json"}).out)["version"], 8);
  answer("GET /v1/rules", R"({"version": 0, "text": ""})");
  const Outcome none = run({"rules", "show"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, StartsWith("no rules"));
}

TEST_F(ServiceCli, RulesAreCheckedAndLoaded) {
  answer(
      "POST /v1/rules",
      R"({"hosts": [{"host": "a", "version": 8, "changes": [{"communicator": "7f3a", "name": "job17", "tenant": "vgg",
              "from": {"rule": "default", "weight": 1, "class": "normal", "log": false},
              "to": {"rule": "batch", "weight": 4, "class": "normal", "log": false}}]}], "unreachable": []})");
  const std::string file = folder_.write("rules.json", kRules);
  const Outcome check = run({"rules", "check", file});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out,
              HasSubstr("job17         7f3a  vgg     weight 1, class normal (rule 'default')  weight 4, class "
                        "normal (rule 'batch')\n"));
  const Outcome load = run({"rules", "load", file});
  EXPECT_EQ(load.out, "a          goes by version 8\n");
  const std::string text = Json(kRules).dump();
  EXPECT_THAT(asked(), ElementsAre("POST /v1/rules {\"text\":" + text + ",\"check\":true}",
                                   "POST /v1/rules {\"text\":" + text + "}"));
}

TEST_F(ServiceCli, RulesThatAllHostsRefuseChangeNothingThatCouldBeShown) {
  answer("POST /v1/rules", R"({"hosts": [{"host": "a", "error": "it follows no plans of rules"}], "unreachable": []})");
  const Outcome check = run({"rules", "check", folder_.write("rules.json", kRules)});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_EQ(check.out, "a          refuses it: it follows no plans of rules\n");
}

TEST_F(ServiceCli, RulesWithAMistakeGoToNobody) {
  const std::string file = folder_.write("rules.json", "{\"version\": 8,\n \"rules\": [{\"name\": 7}]}");
  refuses({"rules", "load", file}, file + " line 2");
  refuses({"rules", "check", folder_.path("none")}, folder_.path("none"));
  EXPECT_THAT(asked(), IsEmpty());
}

}  // namespace
}  // namespace banyan::app
