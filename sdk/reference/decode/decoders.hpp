#pragma once
// The decoders by family. decode_block functions write one block; the table of decode.cpp runs them
// over rows.

#include <cstdint>

namespace bp::reference {

#define BP_DECODER(name) void decode_block_##name(const uint8_t* block, float* out)

// legacy.cpp
BP_DECODER(q4_0);
BP_DECODER(q4_1);
BP_DECODER(q5_0);
BP_DECODER(q5_1);
BP_DECODER(q8_0);
BP_DECODER(q8_1);
// k_quants.cpp
BP_DECODER(q2_K);
BP_DECODER(q3_K);
BP_DECODER(q4_K);
BP_DECODER(q5_K);
BP_DECODER(q6_K);
BP_DECODER(q8_K);
// iq2.cpp
BP_DECODER(iq2_xxs);
BP_DECODER(iq2_xs);
BP_DECODER(iq2_s);
// iq3.cpp
BP_DECODER(iq3_xxs);
BP_DECODER(iq3_s);
// iq1.cpp
BP_DECODER(iq1_s);
BP_DECODER(iq1_m);
// iq4.cpp
BP_DECODER(iq4_nl);
BP_DECODER(iq4_xs);
// ternary.cpp
BP_DECODER(tq1_0);
BP_DECODER(tq2_0);
// fp4.cpp
BP_DECODER(mxfp4);
BP_DECODER(nvfp4);
// small.cpp
BP_DECODER(q1_0);
BP_DECODER(q2_0);

#undef BP_DECODER

}  // namespace bp::reference
