#include "core/server/api_keys.hpp"

#include <algorithm>
#include <cstdint>

#include "core/server/header_checks.hpp"

namespace bp::server {

namespace {

constexpr std::string_view kScheme = "bearer ";

std::string_view bearer_token(std::string_view authorization) {
  const bool is_bearer = authorization.size() > kScheme.size() &&
                         same_ignoring_case(authorization.substr(0, kScheme.size()), kScheme);
  if (!is_bearer) return {};
  const std::string_view token = authorization.substr(kScheme.size());
  return token.substr(std::min(token.find_first_not_of(' '), token.size()));
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  volatile uint8_t difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference = difference | static_cast<uint8_t>(given[i] ^ other);
  }
  return difference == 0;
}

std::optional<Caller> find_caller(const std::vector<config::ApiKey>& keys,
                                  std::string_view authorization) {
  if (keys.empty()) return Caller{};
  const std::string_view token = bearer_token(authorization);
  std::optional<Caller> caller;
  for (const config::ApiKey& key : keys) {
    if (equal_in_constant_time(token, key.key))
      caller = Caller{key.tenant, key.priority, key.priority};
  }
  return token.empty() ? std::nullopt : caller;
}

}  // namespace bp::server
