#pragma once
// The encoders by family; the layouts are those above the decoders in sdk/reference/decode.

#include <cstdint>

namespace bp::quantize {

#define BP_ENCODER(name) \
  void encode_block_##name(const float* in, const float* weights, uint8_t* block)

// simple.cpp
BP_ENCODER(f32);
BP_ENCODER(f16);
BP_ENCODER(bf16);
BP_ENCODER(q4_0);
BP_ENCODER(q4_1);
BP_ENCODER(q5_0);
BP_ENCODER(q5_1);
BP_ENCODER(q8_0);
// small.cpp
BP_ENCODER(tq1_0);
BP_ENCODER(tq2_0);
BP_ENCODER(q1_0);
BP_ENCODER(q2_0);
// k_affine.cpp
BP_ENCODER(q2_K);
BP_ENCODER(q4_K);
BP_ENCODER(q5_K);
// k_symmetric.cpp
BP_ENCODER(q3_K);
BP_ENCODER(q6_K);
// iq4.cpp
BP_ENCODER(iq4_nl);
BP_ENCODER(iq4_xs);
// fp4.cpp
BP_ENCODER(mxfp4);
BP_ENCODER(nvfp4);
// iq2.cpp
BP_ENCODER(iq2_xxs);
BP_ENCODER(iq2_xs);
BP_ENCODER(iq2_s);
// iq3.cpp
BP_ENCODER(iq3_xxs);
BP_ENCODER(iq3_s);
// iq1.cpp
BP_ENCODER(iq1_s);
BP_ENCODER(iq1_m);

#undef BP_ENCODER

}  // namespace bp::quantize
