#pragma once
// A model that runs: what the server and the command line need of it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/plugin/manifest.hpp"
#include "core/text/chat_output/dialect.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::runtime {

struct ServedModel {
  std::string id;
  int64_t created = 0;   // seconds since 1970: when it was loaded
  uint32_t context = 0;  // tokens of the longest sequence
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null where the model has none
  const text::chat::Dialect* chat_output = nullptr;         // null: that of the chat template
  std::string chat_system;  // for conversations without a system message; empty: none
  std::vector<plugin::FieldSpec> request_fields;  // of all sampler stages
  plugin::ParamMap field_defaults;                // the model's, over those of the specs
  std::shared_ptr<const void> kv_promise;  // while it lives, models to come leave it its KV memory
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace bp::runtime
