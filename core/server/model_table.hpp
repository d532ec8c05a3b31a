#pragma once
// The models of a server, from the moment their names are known. [any-thread]

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/served_model.hpp"
#include "core/server/refusal.hpp"

namespace bp::server {

struct ModelEntry {
  std::string id;
  std::shared_ptr<runtime::ServedModel> model;  // null while it loads
  size_t max_prompt_bytes = 0;                  // a longer text cannot fit the context
};

class ModelTable {
 public:
  explicit ModelTable(const std::vector<std::string>& ids);

  // Its id is one of the table's.
  void set(std::shared_ptr<runtime::ServedModel> model);
  [[nodiscard]] std::vector<ModelEntry> all() const;
  // The model of that name, or the only one where no name is given; null after a refusal.
  std::optional<ModelEntry> find(const std::optional<std::string>& id, Refusal& refusal) const;
  // All are loaded and able to work.
  [[nodiscard]] bool ready() const;

 private:
  mutable std::mutex mutex_;
  std::vector<ModelEntry> entries_;
};

}  // namespace bp::server
