"""Tiny models of each family: a class of transformers, and a configuration with uneven sizes and the family's options on.

An entry is (class, configuration class, configuration, dialects to make); GGUF is left out where the converter drops
what the configuration asks for.
"""
N_VOCAB = 67
BASE = dict(vocab_size=N_VOCAB, hidden_size=48, intermediate_size=68, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=1,
            eos_token_id=2, pad_token_id=0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=64,
                partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.2], long_factor=[1.5, 2.2, 2.9])
EXPERTS = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20)
LATENT = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_shared_experts=2,
              first_k_dense_replace=1, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
              num_key_value_heads=6)
GLM_EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_shared_experts=2,
                   first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, num_mtp_layers=0)
WINDOW = dict(sliding_window=20, use_sliding_window=True, max_window_layers=1)
GEMMA = dict(head_dim=12, tie_word_embeddings=True)
SIGLIP = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28,
              patch_size=7)
PIXTRAL = dict(SIGLIP, model_type="pixtral", head_dim=8)
BOTH, HUGGING_FACE = ("huggingface", "gguf"), ("huggingface",)


def base(**changes):
    return {**BASE, **changes}


def layer_types(n, pattern):
    return ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(n)]


def without(config, *names):
    return {key: value for key, value in config.items() if key not in names}


DELTA = dict(EXPERTS, norm_topk_prob=True, head_dim=12, shared_expert_intermediate_size=36, linear_key_head_dim=10,
             linear_value_head_dim=14, linear_num_key_heads=2, linear_num_value_heads=6,
             rope_parameters=dict(rope_type="default", rope_theta=50000.0, partial_rotary_factor=0.5))
CONV = dict(block_multiple_of=20, block_ffn_dim_multiplier=1.3, norm_eps=1e-5, num_hidden_layers=5,
            layer_types=["conv", "full_attention", "conv", "full_attention", "conv"],
            rope_parameters=dict(rope_type="default", rope_theta=50000.0))
GPT2 = dict(vocab_size=N_VOCAB, n_positions=256, n_embd=48, n_layer=3, n_head=6, n_inner=192, bos_token_id=1,
            eos_token_id=2)
FALCON = without(base(bias=False, alibi=False, parallel_attn=True, tie_word_embeddings=True), "num_key_value_heads",
                 "intermediate_size")

FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", base(attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3), BOTH),
    "llama-yarn": ("LlamaForCausalLM", "LlamaConfig", base(head_dim=12, rope_parameters=YARN), BOTH),
    "llama-dynamic": ("LlamaForCausalLM", "LlamaConfig", base(
        max_position_embeddings=64, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)),
        HUGGING_FACE),
    "mistral": ("MistralForCausalLM", "MistralConfig", base(sliding_window=20, head_dim=12), HUGGING_FACE),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", base(num_local_experts=5, num_experts_per_tok=2), BOTH),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", base(**WINDOW), HUGGING_FACE),
    "qwen2-full": ("Qwen2ForCausalLM", "Qwen2Config", base(), BOTH),
    "qwen2moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", base(**EXPERTS, shared_expert_intermediate_size=36), BOTH),
    "qwen2moe-window": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", base(
        **EXPERTS, shared_expert_intermediate_size=36, qkv_bias=False, norm_topk_prob=True, mlp_only_layers=[1],
        sliding_window=20, use_sliding_window=True, max_window_layers=2), HUGGING_FACE),
    "qwen2-fused": ("Qwen2ForCausalLM", "Qwen2Config", base(), BOTH),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", base(**WINDOW, head_dim=12, attention_bias=True), HUGGING_FACE),
    "qwen3-full": ("Qwen3ForCausalLM", "Qwen3Config", base(head_dim=12, attention_bias=True), BOTH),
    "qwen3moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", base(**EXPERTS, norm_topk_prob=True, head_dim=12), BOTH),
    "qwen3moe-window": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", base(
        **EXPERTS, norm_topk_prob=False, decoder_sparse_step=2, attention_bias=True, sliding_window=20,
        use_sliding_window=True, max_window_layers=1), HUGGING_FACE),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", base(**GEMMA), BOTH),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", base(
        **GEMMA, sliding_window=20, query_pre_attn_scalar=12, num_hidden_layers=4, attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0), BOTH),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", base(
        **GEMMA, sliding_window=20, query_pre_attn_scalar=12, num_hidden_layers=7, final_logit_softcapping=3.0,
        rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=50000.0, factor=8.0),
                             sliding_attention=dict(rope_type="default", rope_theta=10000.0))), BOTH),
    "gemma3-vision": ("Gemma3ForConditionalGeneration", "Gemma3Config", dict(
        text_config=base(
            **GEMMA, sliding_window=20, query_pre_attn_scalar=12, num_hidden_layers=7, model_type="gemma3_text",
            rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                                 sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
        vision_config=SIGLIP, mm_tokens_per_image=4, boi_token_index=60, eoi_token_index=61, image_token_index=62,
        tie_word_embeddings=True), HUGGING_FACE),
    "mistral3": ("Mistral3ForConditionalGeneration", "Mistral3Config", dict(
        text_config=base(head_dim=12, sliding_window=None, model_type="mistral"), vision_config=PIXTRAL,
        image_token_index=10, tie_word_embeddings=False), HUGGING_FACE),
    "phi2": ("PhiForCausalLM", "PhiConfig", base(
        num_key_value_heads=6, intermediate_size=192, partial_rotary_factor=0.5), BOTH),
    "phi2-norms": ("PhiForCausalLM", "PhiConfig", base(
        intermediate_size=192, partial_rotary_factor=0.5, qk_layernorm=True), HUGGING_FACE),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", base(
        sliding_window=20, original_max_position_embeddings=64, rope_parameters=LONGROPE), BOTH),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", base(), BOTH),
    "olmo3": ("Olmo3ForCausalLM", "Olmo3Config", base(
        num_hidden_layers=5, sliding_window=20, rope_parameters=dict(
            full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=10000.0))), BOTH),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", base(
        num_experts=6, num_experts_per_tok=3, intermediate_size=28, clip_qkv=1.5), HUGGING_FACE),
    "olmoe-plain": ("OlmoeForCausalLM", "OlmoeConfig", base(
        num_experts=6, num_experts_per_tok=3, intermediate_size=28), BOTH),
    "granite": ("GraniteForCausalLM", "GraniteConfig", base(
        embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.35, attention_multiplier=0.21), BOTH),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", base(num_hidden_layers=5, no_rope_layer_interval=4), BOTH),
    "smollm3-window": ("SmolLM3ForCausalLM", "SmolLM3Config", base(
        num_hidden_layers=5, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=20), HUGGING_FACE),
    "gpt-oss": ("GptOssForCausalLM", "GptOssConfig", base(
        hidden_size=64, intermediate_size=32, num_local_experts=5, num_experts_per_tok=2, head_dim=12,
        sliding_window=20, num_hidden_layers=4,
        rope_parameters=dict(YARN, rope_theta=150000.0, beta_fast=32.0, beta_slow=1.0, truncate=False)), BOTH),
    "gpt-oss-mxfp4": ("GptOssForCausalLM", "GptOssConfig", base(
        hidden_size=64, intermediate_size=32, num_local_experts=5, num_experts_per_tok=2, head_dim=12,
        sliding_window=20, num_hidden_layers=2), BOTH),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2, BOTH),
    "gptneox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", without(base(
        rotary_pct=0.5, use_parallel_residual=True, hidden_act="gelu"), "num_key_value_heads"), BOTH),
    "gptneox-sequential": ("GPTNeoXForCausalLM", "GPTNeoXConfig", without(base(
        rotary_pct=0.25, hidden_size=96, use_parallel_residual=False, hidden_act="gelu"), "num_key_value_heads"),
        BOTH),
    "falcon-40b": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, num_kv_heads=2, new_decoder_architecture=True), BOTH),
    "falcon-7b": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, multi_query=True, new_decoder_architecture=False), BOTH),
    "falcon-one-norm": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1), BOTH),
    "falcon-heads": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, multi_query=False, ffn_hidden_size=100, bias=True), HUGGING_FACE),
    # Slopes of 12 heads are no powers of two, so that their rounding shows.
    "falcon-rw": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, num_attention_heads=12, multi_query=False, parallel_attn=False, alibi=True, bias=True), HUGGING_FACE),
    "falcon-alibi": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, num_kv_heads=2, new_decoder_architecture=True, alibi=True), HUGGING_FACE),
    "falcon-sequential": ("FalconForCausalLM", "FalconConfig", dict(
        FALCON, multi_query=True, parallel_attn=False), HUGGING_FACE),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", base(sliding_window=20, use_bias=True), HUGGING_FACE),
    "starcoder2-full": ("Starcoder2ForCausalLM", "Starcoder2Config", base(sliding_window=None, use_bias=True), BOTH),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", base(
        use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True, partial_rotary_factor=0.25,
        hidden_size=96), BOTH),
    "stablelm-sequential": ("StableLmForCausalLM", "StableLmConfig", base(
        use_parallel_residual=False, use_qkv_bias=True, partial_rotary_factor=0.5), BOTH),
    "command-r": ("CohereForCausalLM", "CohereConfig", base(
        logit_scale=0.25, use_qk_norm=True, tie_word_embeddings=True), BOTH),
    "command-r7b": ("Cohere2ForCausalLM", "Cohere2Config", base(
        logit_scale=0.25, tie_word_embeddings=True, num_hidden_layers=5, sliding_window=20), BOTH),
    "command-r7b-biases": ("Cohere2ForCausalLM", "Cohere2Config", base(
        tie_word_embeddings=True, num_hidden_layers=5, sliding_window=20, attention_bias=True,
        layer_types=layer_types(5, 3)), HUGGING_FACE),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", base(head_dim=12, attention_bias=True), BOTH),
    "glm": ("GlmForCausalLM", "GlmConfig", base(head_dim=8, attention_bias=True, rms_norm_eps=1e-5), BOTH),
    "glm4-moe-lite": ("Glm4MoeLiteForCausalLM", "Glm4MoeLiteConfig", without(base(
        **LATENT, q_lora_rank=20, n_group=4, topk_group=2, routed_scaling_factor=1.8, norm_topk_prob=True),
        "first_k_dense_replace"), BOTH),
    "glm4-moe": ("Glm4MoeForCausalLM", "Glm4MoeConfig", base(
        **GLM_EXPERTS, attention_bias=True, use_qk_norm=True, head_dim=12, n_group=4, topk_group=2), BOTH),
    "glm4-moe-plain": ("Glm4MoeForCausalLM", "Glm4MoeConfig", base(
        **GLM_EXPERTS, partial_rotary_factor=0.25, hidden_size=96, n_group=1, topk_group=1,
        rope_parameters=dict(YARN, partial_rotary_factor=0.25)), BOTH),
    "exaone4": ("Exaone4ForCausalLM", "Exaone4Config", base(
        num_hidden_layers=5, sliding_window=20, sliding_window_pattern=3, rope_parameters=LLAMA3), BOTH),
    "exaone4-full": ("Exaone4ForCausalLM", "Exaone4Config", base(
        head_dim=12, sliding_window=None, layer_types=["full_attention"] * 3, tie_word_embeddings=True), BOTH),
    "ernie4_5": ("Ernie4_5ForCausalLM", "Ernie4_5Config", base(
        head_dim=12, use_bias=True, tie_word_embeddings=True), BOTH),
    "ernie4_5-moe": ("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeConfig", base(
        num_hidden_layers=6, intermediate_size=80, moe_intermediate_size=20, moe_num_experts=6, moe_k=3,
        moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=4, moe_layer_interval=2,
        use_bias=True), HUGGING_FACE),
    "ernie4_5-moe-plain": ("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeConfig", base(
        intermediate_size=80, moe_intermediate_size=20, moe_num_experts=6, moe_k=3, moe_num_shared_experts=2,
        tie_word_embeddings=True), BOTH),
    "deepseek2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", base(
        **LATENT, q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=1.5,
        rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707)), BOTH),
    "deepseek2-groups": ("DeepseekV2ForCausalLM", "DeepseekV2Config", base(
        **LATENT, q_lora_rank=20, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=2.5), BOTH),
    "deepseek3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", base(
        **LATENT, q_lora_rank=20, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True,
        rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0)), BOTH),
    "deepseek3-biases": ("DeepseekV3ForCausalLM", "DeepseekV3Config", base(
        **LATENT, q_lora_rank=20, n_group=4, topk_group=2, attention_bias=True, rope_interleave=False,
        norm_topk_prob=False), HUGGING_FACE),
    "deepseek2-biases": ("DeepseekV2ForCausalLM", "DeepseekV2Config", base(
        **LATENT, q_lora_rank=20, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=1.5,
        attention_bias=True, mlp_bias=True, norm_topk_prob=True), BOTH),
    "gpt2-by-layer": ("GPT2LMHeadModel", "GPT2Config", dict(
        GPT2, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True), HUGGING_FACE),
    "gpt2-unscaled": ("GPT2LMHeadModel", "GPT2Config", dict(
        GPT2, scale_attn_weights=False, tie_word_embeddings=False), HUGGING_FACE),
    # With keys of 10 columns and a kernel of 3, noise of 1e-7 in the weights changes logits by 2e-4 of their deviation.
    "qwen3next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", base(
        **dict(DELTA, linear_key_head_dim=18), num_hidden_layers=5, full_attention_interval=2, attention_bias=True,
        mlp_only_layers=[1], linear_conv_kernel_dim=5), HUGGING_FACE),
    "qwen3next-plain": ("Qwen3NextForCausalLM", "Qwen3NextConfig", base(
        **DELTA, num_hidden_layers=6, full_attention_interval=3), BOTH),
    "qwen3next-fused": ("Qwen3NextForCausalLM", "Qwen3NextConfig", base(
        **DELTA, num_hidden_layers=6, full_attention_interval=3), BOTH),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config", base(**CONV, conv_bias=True, conv_L_cache=4), HUGGING_FACE),
    "lfm2-plain": ("Lfm2ForCausalLM", "Lfm2Config", dict(base(**CONV), tie_word_embeddings=True), BOTH),
    "lfm2moe": ("Lfm2MoeForCausalLM", "Lfm2MoeConfig", dict(
        base(**without(CONV, "block_multiple_of", "block_ffn_dim_multiplier"), **EXPERTS), num_dense_layers=2,
        use_expert_bias=True, norm_topk_prob=True, tie_word_embeddings=True), BOTH),
}
