#include "core/server/refusal.hpp"

#include "core/server/error_body.hpp"

namespace bp::server {

HttpResponse to_response(const Refusal& refusal) {
  HttpResponse response;
  response.status = refusal.status;
  response.body = error_body(refusal.status, refusal.message, refusal.param, refusal.code);
  if (refusal.status == 429) response.headers.emplace_back("Retry-After", "1");
  if (refusal.status == 503) response.headers.emplace_back("Retry-After", "5");
  return response;
}

}  // namespace bp::server
