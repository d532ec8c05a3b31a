#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/server/error_body.hpp"
#include "core/server/json_text.hpp"

namespace bp::server {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonText, StringsReadBackTheSame) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(Json::parse(json_string(all)).get<std::string>(), all);
}

TEST(JsonText, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(json_string("a\xFFz\xC3"), "\"a\xEF\xBF\xBDz\xEF\xBF\xBD\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"), Json("\uFFFD\uFFFD\uFFFD").dump()) << "a surrogate";
}

TEST(JsonText, LogprobsReadBackTheSame) {
  for (const float value : {0.0F, -0.0F, -1e-30F, -1.2345678F, -104.5F}) {
    std::string text;
    append_logprob(value, text);
    EXPECT_EQ(Json::parse(text).get<float>(), value);
  }
  std::string text;
  append_logprob(-INFINITY, text);
  EXPECT_EQ(text, "-9999");
}

TEST(ErrorBody, IsOpenAisEnvelope) {
  const Json body = Json::parse(error_body(400, "bad \"thing\"\xFF", "n", "too_many"));
  EXPECT_EQ(body, Json::parse(R"({"error": {"message": "bad \"thing\"\uFFFD",
      "type": "invalid_request_error", "param": "n", "code": "too_many"}})"));
  EXPECT_TRUE(Json::parse(error_body(500, "x"))["error"]["param"].is_null());
  EXPECT_EQ(Json::parse(error_body(503, "x"))["error"]["type"], "server_error");
}

}  // namespace
}  // namespace bp::server
