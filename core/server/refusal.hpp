#pragma once
// Why a request is not served.

#include <string>

#include "core/server/http.hpp"

namespace bp::server {

struct Refusal {
  int status = 400;
  std::string message;
  std::string param;  // the field at fault
  std::string code;
};

// Of a server that drains.
inline Refusal shutting_down() {
  return {503, "the server is shutting down", {}, {}};
}

// The answer that says so. Where waiting helps (429, 503) it has a Retry-After.
HttpResponse to_response(const Refusal& refusal);

}  // namespace bp::server
