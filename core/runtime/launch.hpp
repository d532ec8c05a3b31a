#pragma once
// From one entry of the configuration to a model that answers: the only place that knows all parts.

#include <memory>
#include <string>

#include "backplane/status.hpp"
#include "core/config/config.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/served_model.hpp"

namespace bp::runtime {

// `runtime` outlives the model. progress may be null.
Result<std::unique_ptr<ServedModel>> launch(Runtime& runtime, const config::Model& config,
                                            uint32_t max_queue, const bp_progress* progress);

// The tokenizer of an open model file, also of one that holds only a vocabulary.
Result<std::shared_ptr<const text::Tokenizer>> make_tokenizer(const model::ModelFile& file);
// own_source: in place of the vocabulary's templates, unless empty. Null where there is none.
Result<std::shared_ptr<const text::ChatTemplate>> make_chat_template(
    const text::Vocabulary& vocabulary, const std::string& own_source = {});

}  // namespace bp::runtime
