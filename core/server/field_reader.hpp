#pragma once
// Reads the fields of a request one by one. The first mistake is kept and every later read answers
// nothing, so that callers ask for all they know and look once at the end. A field that is null
// reads as absent; one that nobody asked for is a mistake.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/server/refusal.hpp"

namespace bp::server {

class FieldReader {
 public:
  using Json = nlohmann::ordered_json;

  // The object outlives the reader. path: where it stands in the request, "messages[0]."; empty for
  // the request itself.
  explicit FieldReader(const Json& object, std::string path = {});

  // Whether it is there, and whether nobody has asked for it yet.
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] bool has_unread(const std::string& name) const;
  // The value of a field, or null where it is absent. The caller checks it.
  const Json* any(const std::string& name);

  // Ranges are inclusive.
  std::optional<int64_t> integer(const std::string& name, int64_t min, int64_t max);
  std::optional<double> number(const std::string& name, double min, double max);
  std::optional<bool> boolean(const std::string& name);
  std::optional<std::string> text(const std::string& name, size_t max_bytes);
  // An array's or object's members are counted before the caller copies them.
  const Json* array(const std::string& name, size_t max_size);
  const Json* object(const std::string& name, size_t max_size);
  // Token ids below n_vocab.
  std::optional<std::vector<int32_t>> ids(const std::string& name, size_t max_size,
                                          uint32_t n_vocab);

  void refuse(const std::string& name, const std::string& what);
  void refuse(Refusal refusal);
  // Refuses what was not asked for.
  void finish();
  [[nodiscard]] const std::optional<Refusal>& refusal() const { return refusal_; }
  [[nodiscard]] bool ok() const { return !refusal_; }

 private:
  struct Field {
    const Json* value;
    bool asked_for = false;
  };

  std::string path_;
  std::vector<std::string> names_;  // in the request's order
  std::unordered_map<std::string, Field> fields_;
  std::optional<Refusal> refusal_;
};

// Reads an array of token ids. Null where it is none; then `error` says why.
std::optional<std::vector<int32_t>> read_ids(const nlohmann::ordered_json& array, uint32_t n_vocab,
                                             std::string& error);

}  // namespace bp::server
