#include "core/server/model_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/server/prompt.hpp"

namespace bp::server {

ModelTable::ModelTable(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) entries_.push_back({id, nullptr, 0});
}

void ModelTable::set(std::shared_ptr<runtime::ServedModel> model) {
  const size_t max_bytes = max_prompt_bytes(*model->tokenizer, model->engine->context());
  const std::scoped_lock lock(mutex_);
  const auto entry = std::ranges::find(entries_, model->id, &ModelEntry::id);
  assert(entry != entries_.end());
  entry->model = std::move(model);
  entry->max_prompt_bytes = max_bytes;
}

std::vector<ModelEntry> ModelTable::all() const {
  const std::scoped_lock lock(mutex_);
  return entries_;
}

std::optional<ModelEntry> ModelTable::find(const std::optional<std::string>& id,
                                           Refusal& refusal) const {
  const std::scoped_lock lock(mutex_);
  if (!id && entries_.size() != 1) {
    refusal = {400, "'model' is missing: the server has several models", "model", {}};
    return std::nullopt;
  }
  const auto entry = id ? std::ranges::find(entries_, *id, &ModelEntry::id) : entries_.begin();
  if (entry == entries_.end()) {
    refusal = {404, fmt::format("The model '{}' does not exist.", *id), "model", "model_not_found"};
    return std::nullopt;
  }
  if (entry->model == nullptr) {
    refusal = {503, fmt::format("The model '{}' is still loading.", entry->id), {}, {}};
    return std::nullopt;
  }
  return *entry;
}

bool ModelTable::ready() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(entries_, [](const ModelEntry& entry) {
    return entry.model != nullptr && entry.model->engine->healthy();
  });
}

}  // namespace bp::server
