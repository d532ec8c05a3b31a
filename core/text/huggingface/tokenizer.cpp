#include "core/text/huggingface/tokenizer.hpp"

#include "core/text/byte_pieces.hpp"
#include "core/text/huggingface/character_pieces.hpp"
#include "core/text/huggingface/pipeline.hpp"
#include "core/text/huggingface/unigram_pieces.hpp"
#include "core/text/huggingface/wordpiece_pieces.hpp"

namespace bp::text {
namespace {

using huggingface::ModelKind;
using huggingface::Pipeline;

TextList render_tokens(const Vocabulary& vocabulary, const Pipeline& pipeline) {
  TextList bytes;
  bytes.reserve(vocabulary.tokens.size(), vocabulary.tokens.n_bytes());
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    bytes.push_back(
        pipeline.decoder.render(vocabulary.tokens[static_cast<size_t>(id)], vocabulary.type(id)));
  }
  return bytes;
}

// Tokens that are looked for in the normalised text, by what normalising makes of theirs.
Result<SpecialTokens> normalized_tokens(const Vocabulary& vocabulary, const Pipeline& pipeline) {
  SpecialTokens tokens;
  for (const AddedToken& added : vocabulary.added) {
    if (!added.matches_normalized) continue;
    const std::string_view text = vocabulary.tokens[static_cast<size_t>(added.id)];
    BP_TRY(tokens.add(pipeline.normalizer.apply(text), added.id, false, added));
  }
  return tokens;
}

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary) {
    const Pipeline& pipeline = *vocabulary.huggingface;
    BP_ASSIGN(SpecialTokens special, SpecialTokens::create(vocabulary));
    BP_ASSIGN(SpecialTokens normalized, normalized_tokens(vocabulary, pipeline));
    auto bytes = render_tokens(vocabulary, pipeline);
    const bool leading_space = pipeline.decoder.drops_leading_space();
    const bool always = pipeline.splitter.prepends_always() || pipeline.normalizer.prepends();
    Parts parts{std::move(vocabulary), std::move(special), std::move(bytes), leading_space,
                leading_space && always};
    return std::unique_ptr<Tokenizer>(
        new HuggingFaceTokenizer(std::move(parts), std::move(normalized)));
  }

 private:
  HuggingFaceTokenizer(Parts parts, SpecialTokens normalized)
      : Tokenizer(std::move(parts)),
        pipeline_(*vocabulary().huggingface),
        normalized_(std::move(normalized)),
        model_(make_model()) {}

  [[nodiscard]] std::unique_ptr<PieceModel> make_model() {
    switch (pipeline_.kind) {
      case ModelKind::kUnigram:
        return std::make_unique<huggingface::UnigramPieces>(vocabulary(), pipeline_);
      case ModelKind::kWordPiece:
        return std::make_unique<huggingface::WordPiecePieces>(vocabulary(), pipeline_);
      case ModelKind::kBpe:
        break;
    }
    if (!pipeline_.splitter.is_byte_level()) {
      return std::make_unique<huggingface::CharacterPieces>(vocabulary(), pipeline_);
    }
    byte_tokens_ = render_byte_tokens(vocabulary());
    return std::make_unique<BytePieces>(vocabulary(), byte_tokens_, pipeline_.merges,
                                        pipeline_.prefers_whole_pieces);
  }

  void encode_text(std::string_view text, TextPlace place,
                   std::vector<int32_t>& ids) const override {
    if (pipeline_.normalizer.is_identity()) return encode_normalized(text, place.at_start, ids);
    encode_normalized(pipeline_.normalizer.apply(text), place.at_start, ids);
  }

  void encode_normalized(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
    for (size_t at = 0; at < text.size();) {
      const SpecialTokens::Match match = normalized_.find(text, false, at);
      if (match.begin > at) {
        encode_plain(text.substr(at, match.begin - at), at_start && at == 0, ids);
      }
      if (match.id != kNoToken) ids.push_back(match.id);
      at = match.begin + match.size;
    }
  }

  void encode_plain(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
    PieceScratch scratch{.merge = {}, .words = WordCache(text.size())};
    pipeline_.splitter.for_each_piece(
        text, at_start, [&](std::string_view piece) { model_->encode(piece, scratch, ids); });
  }

  const Pipeline& pipeline_;
  SpecialTokens normalized_;
  TextList byte_tokens_;  // by id, of a byte-level vocabulary
  std::unique_ptr<PieceModel> model_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> create_huggingface(Vocabulary vocabulary) {
  return HuggingFaceTokenizer::create(std::move(vocabulary));
}

}  // namespace bp::text
