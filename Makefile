# SexpGPU. One non-recursive Makefile; the lists below are the map of what is built from what.
#
#   make            libraries and tools into build/bin
#   make demo       installs what it needs, builds, trains the Fashion-MNIST example and checks it
#   make test       installs what it needs, builds, runs every test
#   make gpu-check  on a machine with a card: builds, checks and measures the CUDA device, writes a report
#   make help       the other targets
#
# Objects go to build/<hash of compiler and flags>; build/bin, build/lib and build/test link the last build.
# Settings: CC=clang  OPTIMIZE=-O3  SANITIZE=address,undefined  WERROR=1  BUILD=dir  V=1  JOBS=2  PREFIX=/usr/local
# CUDA=0  CUDA_HOME=/usr/local/cuda  CUDNN_HOME=dir

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
BUILD ?= build
PREFIX ?= /usr/local
OPTIMIZE ?= -O2
SANITIZE ?=
WERROR ?=
VERSION := 0.1.0

# ---- sources -------------------------------------------------------------------------------------

LIBSEXP_SOURCES := \
  libsexp/base/bug.c libsexp/base/diag.c libsexp/base/glob.c libsexp/base/guard.c libsexp/base/intern.c libsexp/base/memory.c \
  libsexp/base/sha256.c libsexp/base/text.c \
  libsexp/ir/build.c libsexp/ir/build_product.c libsexp/ir/draw_key.c libsexp/ir/element.c libsexp/ir/infer.c libsexp/ir/infer_product.c \
  libsexp/ir/infer_shape.c libsexp/ir/ir.c libsexp/ir/parse.c libsexp/ir/print.c libsexp/ir/verify.c \
  libsexp/read/diag_print.c libsexp/read/lexer.c libsexp/read/number.c libsexp/read/print.c libsexp/read/reader.c \
  libsexp/read/source.c libsexp/read/utf8.c \
  libsexp/lang/activate.c libsexp/lang/builtins_index.c libsexp/lang/builtins_list.c libsexp/lang/builtins_model.c \
  libsexp/lang/builtins_move.c libsexp/lang/builtins_number.c libsexp/lang/builtins_random.c \
  libsexp/lang/builtins_reduce.c libsexp/lang/builtins_tensor.c libsexp/lang/builtins_text.c libsexp/lang/call.c \
  libsexp/lang/evaluate.c libsexp/lang/fields.c libsexp/lang/forms.c libsexp/lang/forms_data.c \
  libsexp/lang/forms_eval.c libsexp/lang/forms_generator.c libsexp/lang/forms_run.c libsexp/lang/knobs.c \
  libsexp/lang/load.c libsexp/lang/machine.c libsexp/lang/names.c libsexp/lang/options.c libsexp/lang/param.c \
  libsexp/lang/paths.c libsexp/lang/state.c libsexp/lang/suggest.c libsexp/lang/tensor.c libsexp/lang/trace.c \
  libsexp/lang/translate.c libsexp/lang/update.c libsexp/lang/value.c \
  libsexp/pass/cse.c libsexp/pass/dce.c libsexp/pass/fold_constant.c libsexp/pass/gradient.c \
  libsexp/pass/gradient_moves.c libsexp/pass/gradient_rules.c libsexp/pass/simplify.c \
  libsexp/pass/attention.c libsexp/pass/attention_skip.c libsexp/pass/cost.c libsexp/pass/cut.c libsexp/pass/degrees.c libsexp/pass/fuse.c libsexp/pass/in_place.c libsexp/pass/memory.c libsexp/pass/pack.c libsexp/pass/plan.c libsexp/pass/plan_print.c \
  libsexp/pass/join.c libsexp/pass/layout.c libsexp/pass/lives.c libsexp/pass/recompute.c libsexp/pass/recompute_clone.c libsexp/pass/rows.c libsexp/pass/schedule.c libsexp/pass/stack.c libsexp/pass/stack_rules.c libsexp/pass/view.c libsexp/pass/wait.c \
  libsexp/cpu/attention.c libsexp/cpu/attention_operands.c libsexp/cpu/attention_prepare.c libsexp/cpu/canonical.c libsexp/cpu/columns.c libsexp/cpu/chain.c libsexp/cpu/dispatch.c libsexp/cpu/elementwise.c libsexp/cpu/executable.c \
  libsexp/cpu/backend.c \
  libsexp/cpu/group_prepare.c libsexp/cpu/launch.c \
  libsexp/cpu/reference.c libsexp/cpu/reference_contract.c libsexp/cpu/reference_element.c libsexp/cpu/reference_index.c \
  libsexp/cpu/reference_move.c libsexp/cpu/reference_random.c libsexp/cpu/reference_reduce.c libsexp/cpu/reference_scan.c \
  libsexp/cpu/scratch.c libsexp/cpu/softmax.c libsexp/cpu/threads.c libsexp/cpu/walk.c \
  libsexp/cuda/contract.c libsexp/cuda/convolution.c libsexp/cuda/convolve.c libsexp/cuda/cubins.c \
  libsexp/cuda/device.c libsexp/cuda/emit.c libsexp/cuda/emit_draw.c libsexp/cuda/emit_element.c \
  libsexp/cuda/emit_group.c libsexp/cuda/emit_index.c libsexp/cuda/emit_kernel.c libsexp/cuda/emit_members.c \
  libsexp/cuda/emit_merge.c libsexp/cuda/emit_move.c libsexp/cuda/emit_path.c libsexp/cuda/emit_reduce.c \
  libsexp/cuda/emit_rows.c libsexp/cuda/emit_scan.c libsexp/cuda/emit_scatter.c libsexp/cuda/emit_sort.c \
  libsexp/cuda/kernel_product.c libsexp/cuda/lower.c libsexp/cuda/product.c libsexp/cuda/product_map.c \
  libsexp/cuda/values.c libsexp/cuda/work.c \
  libsexp/run/bind.c libsexp/run/choosing.c libsexp/run/estimating.c libsexp/run/data_arrays.c libsexp/run/data_csv.c libsexp/run/data_idx.c \
  libsexp/run/data_manifest.c libsexp/run/data_windows.c libsexp/run/dataset.c libsexp/run/device_memory.c libsexp/run/diagnostics.c \
  libsexp/run/digests.c libsexp/run/encoding.c libsexp/run/evaluation.c libsexp/run/files.c libsexp/run/generating.c \
  libsexp/run/loader.c libsexp/run/messages.c libsexp/run/parameters.c libsexp/run/run.c libsexp/run/start.c libsexp/run/step.c \
  libsexp/run/sum_tree.c libsexp/run/training.c \
  libsexp/api.c libsexp/compile.c libsexp/describe.c libsexp/describe_memory.c libsexp/explain.c libsexp/libraries.c libsexp/open_device.c

# Compiled once for every SIMD level of the architecture.
LIBSEXP_LEVEL_SOURCES := \
  libsexp/cpu/kernel_set.c libsexp/cpu/kernels_attention.c libsexp/cpu/kernels_chain.c libsexp/cpu/kernels_chain_types.c libsexp/cpu/kernels_conv.c libsexp/cpu/kernels_conv_lines.c libsexp/cpu/kernels_conv_pixels.c libsexp/cpu/kernels_conv_weight.c libsexp/cpu/kernels_einsum.c libsexp/cpu/kernels_element.c \
  libsexp/cpu/kernels_gemm.c libsexp/cpu/kernels_index.c libsexp/cpu/kernels_lines.c libsexp/cpu/kernels_move.c \
  libsexp/cpu/kernels_pack.c libsexp/cpu/kernels_narrow.c libsexp/cpu/kernels_turned.c libsexp/cpu/kernels_plain.c libsexp/cpu/kernels_tile.c libsexp/cpu/kernels_random.c \
  libsexp/cpu/kernels_reduce.c libsexp/cpu/kernels_row.c libsexp/cpu/kernels_scan.c libsexp/cpu/kernels_short.c \
  libsexp/cpu/kernels_softmax.c libsexp/cpu/kernels_sort.c libsexp/cpu/kernels_sum.c

# Only where the headers of CUDA and cuDNN are (see "CUDA" below).
LIBSEXP_CUDA_SOURCES := \
  libsexp/cuda/api.c libsexp/cuda/backend.c libsexp/cuda/candidate.c libsexp/cuda/choose.c libsexp/cuda/compile.c \
  libsexp/cuda/convolve_run.c libsexp/cuda/cuda.c libsexp/cuda/cudnn_descriptor.c libsexp/cuda/cudnn_pin.c \
  libsexp/cuda/cudnn_select.c libsexp/cuda/executable.c libsexp/cuda/measure.c libsexp/cuda/observe.c \
  libsexp/cuda/open.c libsexp/cuda/probe.c libsexp/cuda/product_run.c libsexp/cuda/trial.c

LIBSEXP_HEADERS := libsexp/sexp.h libsexp/sexp_device.h libsexp/sexp_explain.h
PRELUDE := $(sort $(wildcard libsexp/lang/prelude/*.sexp))
# Kernels of the CUDA device that are written by hand, in the order in which they need each other.
KERNELS := kernels/math.h kernels/draws.h kernels/device.cuh kernels/arrays.cuh

LIBCKPT_SOURCES := \
  libckpt/arrays.c libckpt/beside.c libckpt/canonical.c libckpt/checkpoint.c libckpt/checkpoint_open.c libckpt/compare.c libckpt/compare_lanes.c libckpt/copy.c libckpt/digest.c \
  libckpt/directory.c libckpt/dtype.c libckpt/error.c libckpt/experiment_read.c libckpt/experiment_write.c \
  libckpt/file.c libckpt/files.c libckpt/folder.c libckpt/gzip.c libckpt/json_get.c libckpt/json_read.c libckpt/json_write.c libckpt/lane.c \
  libckpt/location.c libckpt/manifest.c libckpt/npy.c libckpt/npz.c libckpt/object.c libckpt/output.c \
  libckpt/s3.c libckpt/s3_digest.c libckpt/s3_folder.c libckpt/s3_http.c libckpt/s3_location.c libckpt/s3_name.c \
  libckpt/s3_object.c libckpt/s3_parts.c libckpt/s3_prove.c libckpt/s3_read.c libckpt/s3_request.c libckpt/s3_sign.c libckpt/s3_upload.c \
  libckpt/s3_work.c libckpt/s3_xml.c \
  libckpt/safetensors_index.c libckpt/safetensors_read.c libckpt/safetensors_write.c libckpt/sha256.c \
  libckpt/tensors.c libckpt/utf8.c
LIBCKPT_HEADERS := libckpt/ckpt.h libckpt/ckpt_checkpoint.h libckpt/ckpt_json.h libckpt/ckpt_s3.h \
  libckpt/ckpt_status.h

LIBCHOICES_SOURCES := \
  libchoices/candidates.c libchoices/compare.c libchoices/error.c libchoices/executable.c libchoices/json.c \
  libchoices/key.c libchoices/kinds.c libchoices/layer.c libchoices/level.c libchoices/measure.c libchoices/memory.c \
  libchoices/pin.c libchoices/pin_print.c libchoices/probes.c libchoices/record.c libchoices/record_merge.c libchoices/record_object.c libchoices/record_print.c \
  libchoices/record_read.c libchoices/record_stream.c libchoices/request.c libchoices/rows.c libchoices/sha256.c \
  libchoices/sql.c libchoices/store.c libchoices/store_check.c libchoices/store_import.c libchoices/store_open.c \
  libchoices/store_record.c libchoices/utf8.c
LIBCHOICES_HEADERS := libchoices/choices.h libchoices/choices_record.h libchoices/choices_status.h

COMMON_SOURCES := \
  tools/common/available.c tools/common/chooser.c tools/common/choices.c tools/common/clock.c tools/common/command.c tools/common/credentials.c tools/common/engine.c tools/common/experiment.c tools/common/failure.c \
  tools/common/format.c tools/common/host.c tools/common/kept.c tools/common/lost_pages.c tools/common/messages.c tools/common/paths.c \
  tools/common/pinning.c tools/common/probes.c tools/common/progress.c tools/common/recorded.c tools/common/records.c tools/common/report.c \
  tools/common/resume.c tools/common/seen.c tools/common/selection.c tools/common/settings.c tools/common/sink.c tools/common/status.c \
  tools/common/stop.c tools/common/syvain.c tools/common/syvain_batch.c tools/common/syvain_post.c \
  tools/common/syvain_settings.c tools/common/syvain_spill.c tools/common/table.c
RUN_SOURCES := tools/sexpgpu-run/checkpoints.c tools/sexpgpu-run/main.c tools/sexpgpu-run/settings.c \
  tools/sexpgpu-run/train.c tools/sexpgpu-run/writer.c
CHECKPOINT_SOURCES := \
  tools/sexpgpu-checkpoint/bundle.c tools/sexpgpu-checkpoint/bundle_gather.c tools/sexpgpu-checkpoint/choices.c \
  tools/sexpgpu-checkpoint/command.c tools/sexpgpu-checkpoint/cp.c tools/sexpgpu-checkpoint/diff.c \
  tools/sexpgpu-checkpoint/diff_facts.c tools/sexpgpu-checkpoint/diff_print.c tools/sexpgpu-checkpoint/digest.c \
  tools/sexpgpu-checkpoint/get.c tools/sexpgpu-checkpoint/json_members.c tools/sexpgpu-checkpoint/layout.c \
  tools/sexpgpu-checkpoint/ls.c tools/sexpgpu-checkpoint/main.c tools/sexpgpu-checkpoint/open.c \
  tools/sexpgpu-checkpoint/prune.c tools/sexpgpu-checkpoint/show.c \
  tools/sexpgpu-checkpoint/tar.c tools/sexpgpu-checkpoint/tensors.c tools/sexpgpu-checkpoint/verify.c \
  tools/sexpgpu-checkpoint/words.c
EVALUATE_SOURCES := \
  tools/sexpgpu-evaluate/evaluate.c tools/sexpgpu-evaluate/knob.c tools/sexpgpu-evaluate/main.c \
  tools/sexpgpu-evaluate/output.c tools/sexpgpu-evaluate/place.c tools/sexpgpu-evaluate/settings.c \
  tools/sexpgpu-evaluate/subject.c tools/sexpgpu-evaluate/watch.c
CHOICES_SOURCES := \
  tools/sexpgpu-choices/check.c tools/sexpgpu-choices/command.c tools/sexpgpu-choices/device.c tools/sexpgpu-choices/diff.c \
  tools/sexpgpu-choices/list.c tools/sexpgpu-choices/main.c tools/sexpgpu-choices/remove.c \
  tools/sexpgpu-choices/transfer.c tools/sexpgpu-choices/why.c tools/sexpgpu-choices/words.c
DOCTOR_SOURCES := \
  tools/sexpgpu-doctor/finding.c tools/sexpgpu-doctor/libraries.c tools/sexpgpu-doctor/machine.c tools/sexpgpu-doctor/main.c \
  tools/sexpgpu-doctor/processor.c tools/sexpgpu-doctor/self_test.c tools/sexpgpu-doctor/storage.c \
  tools/sexpgpu-doctor/store.c tools/sexpgpu-doctor/variables.c tools/sexpgpu-doctor/verify.c
EXPLAIN_SOURCES := tools/sexpgpu-explain/json.c tools/sexpgpu-explain/main.c tools/sexpgpu-explain/settings.c
DISPATCHER_SOURCES := tools/sexpgpu/main.c
TOOLS := sexpgpu sexpgpu-checkpoint sexpgpu-choices sexpgpu-doctor sexpgpu-evaluate sexpgpu-explain sexpgpu-run

MANPAGES := tools/sexpgpu/sexpgpu.1 tools/sexpgpu-checkpoint/sexpgpu-checkpoint.1 \
  tools/sexpgpu-choices/sexpgpu-choices.1 tools/sexpgpu-doctor/sexpgpu-doctor.1 \
  tools/sexpgpu-evaluate/sexpgpu-evaluate.1 tools/sexpgpu-explain/sexpgpu-explain.1 tools/sexpgpu-run/sexpgpu-run.1

# The simulator's interpreter of PTX; ptx_lanes.c once for every SIMD level.
CUDASIM_PTX_SOURCES := tests/cudasim/ptx_convert.c tests/cudasim/ptx_decode.c tests/cudasim/ptx_memory.c \
  tests/cudasim/ptx_module.c tests/cudasim/ptx_parse.c tests/cudasim/ptx_run.c
CUDASIM_PTX_LEVEL_SOURCES := tests/cudasim/ptx_lanes.c

# ---- CUDA ----------------------------------------------------------------------------------------

# Types alone come from the headers; libraries are loaded at run time. CUDA=0 builds without, CUDA_HOME and
# CUDNN_HOME say where they are.
CUDA ?= 1
CUDA_HOME ?= /usr/local/cuda
CUDNN_HOME ?= $(firstword $(patsubst %/include/cudnn_backend.h,%,$(wildcard $(CUDA_HOME)/include/cudnn_backend.h \
  /usr/local/include/cudnn_backend.h /usr/include/cudnn_backend.h)) $(CUDA_HOME))
CUDA_NEEDS := $(addprefix $(CUDA_HOME)/include/,cuda.h nvrtc.h cublas_v2.h cublasLt.h) $(CUDNN_HOME)/include/cudnn_backend.h
CUDA_LACKS := $(filter-out $(wildcard $(CUDA_NEEDS)),$(CUDA_NEEDS))
ifeq ($(CUDA),0)
CUDA_STATE := no: CUDA=0
else ifneq (,$(CUDA_LACKS))
CUDA_STATE := no: there is no $(firstword $(CUDA_LACKS))
else ifeq (,$(shell grep -ls CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION $(CUDNN_HOME)/include/cudnn_*.h))
CUDA_STATE := no: $(CUDNN_HOME)/include is of a cuDNN before 9.8
else
CUDA_INCLUDES := $(foreach home,$(sort $(CUDA_HOME) $(CUDNN_HOME)),-isystem $(home)/include)
CUDA_STATE := yes ($(CUDA_HOME)/include$(if $(filter-out $(CUDA_HOME),$(CUDNN_HOME)), $(CUDNN_HOME)/include))
LIBSEXP_SOURCES += $(LIBSEXP_CUDA_SOURCES)
endif

# Stand-ins for the libraries of CUDA, on which the tests run the device (tests/cudasim). Test equipment: never installed.
CUDASIM_DRIVER_SOURCES := $(addprefix tests/cudasim/,call.c capture.c context.c copy.c foreign.c graph.c launch.c library.c \
  memory.c module.c object.c old.c queue.c race.c refused.c results.c settings.c stream.c time.c)
CUDASIM_NVRTC_SOURCES := tests/cudasim/nvrtc.c
CUDASIM_CUBLAS_SOURCES := $(addprefix tests/cudasim/,fold.c mathlib.c gemm.c cublas.c)
CUDASIM_CUBLASLT_SOURCES := $(addprefix tests/cudasim/,fold.c mathlib.c gemm.c cublaslt.c)
CUDASIM_CUDNN_SOURCES := $(addprefix tests/cudasim/,fold.c mathlib.c convolve.c cudnn.c cudnn_real.c)

# ---- flags ---------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wwrite-strings -Wstrict-prototypes \
  -Wmissing-prototypes -Wdouble-promotion -Wconversion $(if $(WERROR),-Werror)
SANITIZERS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
DEFINES := -D_POSIX_C_SOURCE=200809L -DSEXPGPU_VERSION='"$(VERSION)"' $(if $(CUDA_INCLUDES),-DSX_CUDA=1)
ALL_CFLAGS := -std=c17 $(OPTIMIZE) -g -ffp-contract=off -fno-math-errno -fPIC -pthread $(DEFINES) $(WARNINGS) $(SANITIZERS) $(CFLAGS)
ALL_LDFLAGS := -pthread $(SANITIZERS) $(LDFLAGS)
LIBS_SEXP := -ljansson -lcrypto -lm -ldl
LIBS_CKPT := -ljansson -lz -lcurl -lexpat -lcrypto -lm
LIBS_CHOICES := -lsqlite3 -ljansson -lcrypto
LIBS_TEST := -lcmocka -lmpfr -lgmp

MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq (,$(findstring x86_64,$(MACHINE)))
LEVELS := scalar avx2 avx512
endif
LEVELS ?= scalar
LEVEL_FLAGS_scalar :=
LEVEL_FLAGS_avx2 := -mavx2 -mfma -mf16c -mbmi2
LEVEL_FLAGS_avx512 := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512

COMPILER := $(shell $(CC) --version 2>/dev/null | head -n 1)
CONFIGURATION := $(COMPILER)|$(ALL_CFLAGS)|$(ALL_LDFLAGS)|$(LEVELS)|$(CUDA_INCLUDES)
HASH := $(shell printf '%s' "$(subst ",,$(CONFIGURATION))" | cksum | cut -d ' ' -f 1)
O := $(BUILD)/$(HASH)

JOBS ?= $(shell nproc 2>/dev/null || echo 1)
Q := $(if $(V),,@)
submake = $(Q)$(MAKE) --no-print-directory -j$(JOBS)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

# ---- objects -------------------------------------------------------------------------------------

objects = $(patsubst %.c,$(O)/%.o,$(1))
level_objects = $(foreach level,$(LEVELS),$(patsubst %.c,$(O)/%.$(level).o,$(LIBSEXP_LEVEL_SOURCES)))
LIBSEXP_OBJECTS := $(call objects,$(LIBSEXP_SOURCES)) $(level_objects) $(if $(PRELUDE),$(O)/libsexp/lang/prelude.o) \
  $(O)/libsexp/cuda/kernels.o
LIBCKPT_OBJECTS := $(call objects,$(LIBCKPT_SOURCES))
LIBCHOICES_OBJECTS := $(call objects,$(LIBCHOICES_SOURCES)) $(O)/libchoices/schema.o
COMMON_OBJECTS := $(call objects,$(COMMON_SOURCES))

LIBSEXP := $(O)/libsexp.a
LIBCKPT := $(O)/libckpt.a
LIBCHOICES := $(O)/libchoices.a
COMMON := $(O)/libcommon.a

UNIT_TESTS := $(patsubst tests/%.c,$(O)/tests/%,$(sort $(wildcard tests/unit/test_*.c tests/op/test_*.c \
  tests/pass/test_*.c tests/lang/test_*.c tests/run/test_*.c tests/oom/test_*.c)))
ifneq (,$(findstring thread,$(SANITIZE)))
# One stands in for system calls that ThreadSanitizer makes; those of the device do their work in one thread.
UNIT_TESTS := $(filter-out %/test_ckpt_faults $(patsubst tests/%.c,$(O)/tests/%,$(wildcard tests/unit/test_cuda*.c)),$(UNIT_TESTS))
endif
TEST_PROGRAMS := $(patsubst tests/%.c,$(O)/tests/%,$(sort $(wildcard tests/lang/evaluate.c tests/pass/run_pass.c tests/cuda/emit_ptx.c \
  tests/math/check_math.c)))
ifneq (,$(findstring thread,$(SANITIZE)))
TEST_PROGRAMS := $(filter-out %/emit_ptx,$(TEST_PROGRAMS))
endif
TEST_COMMON := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard tests/common/*.c)))
GPU_COMMON := $(patsubst %,$(O)/tests/gpu/%.o,bench_launches bench_memory bench_products bench_timing \
  check_graphs check_library check_single on_device) \
  $(patsubst %,$(O)/tests/common/%.o,case_plan interpret kernel_case planned random_graph)
GPU_PROGRAMS := $(addprefix $(O)/tests/,bench/bench_device gpu/check_facts gpu/check_operations)
BENCHES := $(patsubst tests/%.c,$(O)/tests/%,$(sort $(wildcard tests/bench/bench_*.c)))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
REPLAYS := $(patsubst %,$(O)/tests/fuzz/%,$(FUZZERS))

.PHONY: libs all demo test tests golden docs check-math bench asan ubsan tsan fuzz tidy format install uninstall dist clean help \
  dependencies configuration gpu gpu-check
libs: $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES) $(COMMON)
all: configuration $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES) $(patsubst %,$(O)/bin/%,$(TOOLS)) $(O)/libsexp.so $(O)/libckpt.so \
  $(O)/libchoices.so
	$(Q)ln -sfn $(HASH)/bin $(BUILD)/bin && ln -sfn $(HASH) $(BUILD)/lib && ln -sfn $(HASH)/tests $(BUILD)/test

configuration:
	$(if $(filter s,$(firstword -$(MAKEFLAGS))),,@echo "sexpgpu $(VERSION): $(COMPILER); levels $(LEVELS); CUDA $(CUDA_STATE)")

$(O)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@
$(O)/libsexp/cuda/%.o $(O)/tests/cudasim/%.o $(O)/tests/common/cuda.o $(O)/tests/common/cudasim.o $(O)/tests/common/cudasim_%.o $(O)/tests/unit/test_cu%.o $(O)/tests/gpu/%.o $(O)/tests/bench/bench_device.o: \
  INCLUDES := $(CUDA_INCLUDES)
$(O)/tests/cudasim/cudnn_real.o: INCLUDES := $(CUDA_INCLUDES) -DSIM_CUDNN_HOME='"$(CUDNN_HOME)"'

define level_rule
$(O)/%.$(1).o: %.c
	$$(call say,CC,$$<' ($(1))')
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(LEVEL_FLAGS_$(1)) -DSX_LEVEL=$(1) -MMD -MP -c $$< -o $$@
endef
$(foreach level,$(LEVELS),$(eval $(call level_rule,$(level))))
$(foreach level,$(LEVELS),$(O)/tests/cudasim/ptx_lanes.$(level).o): ALL_CFLAGS += $(if $(SANITIZE),,-O3)

$(O)/libsexp/lang/prelude.c: libsexp/lang/embed.sh $(PRELUDE)
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh libsexp/lang/embed.sh $(PRELUDE) > $@
$(O)/libsexp/lang/prelude.o: $(O)/libsexp/lang/prelude.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -Ilibsexp/lang -MMD -MP -c $< -o $@

$(O)/libsexp/cuda/kernels.c: libsexp/cuda/embed.sh $(KERNELS)
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh libsexp/cuda/embed.sh $(KERNELS) > $@
$(O)/libsexp/cuda/kernels.o: $(O)/libsexp/cuda/kernels.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -Ilibsexp/cuda -MMD -MP -c $< -o $@

$(O)/libchoices/schema.c: libchoices/embed.sh libchoices/schema.sql
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh libchoices/embed.sh libchoices/schema.sql > $@
$(O)/libchoices/schema.o: $(O)/libchoices/schema.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -Ilibchoices -MMD -MP -c $< -o $@

$(LIBSEXP): $(LIBSEXP_OBJECTS)
$(LIBCKPT): $(LIBCKPT_OBJECTS)
$(LIBCHOICES): $(LIBCHOICES_OBJECTS)
$(COMMON): $(COMMON_OBJECTS)
$(LIBSEXP) $(LIBCKPT) $(LIBCHOICES) $(COMMON):
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The shared libraries show what the public headers declare and nothing else.
$(O)/libsexp.so: $(LIBSEXP_OBJECTS) libsexp/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libsexp.so.0 -Wl,--version-script=libsexp/exports.map \
	  -o $@ $(LIBSEXP_OBJECTS) $(LIBS_SEXP)
$(O)/libckpt.so: $(LIBCKPT_OBJECTS) libckpt/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libckpt.so.0 -Wl,--version-script=libckpt/exports.map \
	  -o $@ $(LIBCKPT_OBJECTS) $(LIBS_CKPT)
$(O)/libchoices.so: $(LIBCHOICES_OBJECTS) libchoices/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libchoices.so.0 -Wl,--version-script=libchoices/exports.map \
	  -o $@ $(LIBCHOICES_OBJECTS) $(LIBS_CHOICES)

$(O)/bin/sexpgpu-run: $(call objects,$(RUN_SOURCES)) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES)

$(O)/bin/sexpgpu-evaluate: $(call objects,$(EVALUATE_SOURCES)) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES)

$(O)/bin/sexpgpu-doctor: $(call objects,$(DOCTOR_SOURCES)) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES)

$(O)/bin/sexpgpu-explain: $(call objects,$(EXPLAIN_SOURCES)) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES)

# Of libcommon it takes the errors.
$(O)/bin/sexpgpu: $(call objects,$(DISPATCHER_SOURCES)) $(COMMON)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^

# Needs libckpt alone: of libcommon it takes what does without libsexp.
$(O)/bin/sexpgpu-checkpoint: $(call objects,$(CHECKPOINT_SOURCES)) $(COMMON) $(LIBCKPT)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_CKPT)

# Needs libchoices alone.
$(O)/bin/sexpgpu-choices: $(call objects,$(CHOICES_SOURCES)) $(COMMON) $(LIBCHOICES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_CHOICES)

# ---- tests ---------------------------------------------------------------------------------------

TEST_LINK = $(TEST_COMMON) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
$(O)/tests/%: $(O)/tests/%.o $(TEST_LINK)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(TEST_LINK) $(LIBS_TEST) $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES) -ldl
$(REPLAYS): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/replay.o $(TEST_LINK)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(O)/tests/fuzz/replay.o $(TEST_LINK) $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES) $(LIBS_TEST)

# Programs that execute PTX themselves.
CUDASIM_PTX_OBJECTS := $(call objects,$(CUDASIM_PTX_SOURCES)) \
  $(foreach level,$(LEVELS),$(patsubst %.c,$(O)/%.$(level).o,$(CUDASIM_PTX_LEVEL_SOURCES)))
PTX_CASE := $(O)/tests/cudasim/ptx_case.o $(O)/tests/cudasim/emit_case.o $(CUDASIM_PTX_OBJECTS)
PTX_PROGRAMS := $(addprefix unit/test_cudasim_,ptx ptx_memory ptx_strict ptx_values) unit/test_cuda_emit \
  unit/test_cuda_product_kernels bench/bench_cudasim_ptx cuda/emit_ptx
$(patsubst %,$(O)/tests/%,$(PTX_PROGRAMS)): \
  $(O)/tests/%: $(O)/tests/%.o $(PTX_CASE) $(TEST_LINK)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(PTX_CASE) $(TEST_LINK) $(LIBS_TEST) $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES) -ldl

# sexpgpu-run with an account of its threads or tasks, for tests/bench/bench_threads.py and bench_tasks.py.
ACCOUNTS := $(O)/tests/bench/account_threads $(O)/tests/bench/account_tasks
$(O)/tests/bench/account_threads: WRAPPED := sx_pool_run sexp_run_step
$(O)/tests/bench/account_tasks: WRAPPED := sx_executable_new sx_executable_execute sx_kernels sx_group_run \
  sx_group_run_columns sx_attending_run sx_walk_copy sexp_run_step
$(ACCOUNTS): %: %.o $(call objects,$(RUN_SOURCES)) $(COMMON) $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES)

# Programs for a machine with a card: they need nothing that the product does not.
$(GPU_PROGRAMS): $(O)/tests/%: $(O)/tests/%.o $(GPU_COMMON) $(LIBSEXP)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(GPU_COMMON) $(LIBSEXP) $(LIBS_SEXP)

# Libraries that cannot be used, for the test of loading.
$(O)/tests/doubles/cudnn_lacks_finalize.so: DOUBLE := -DLACKS_FINALIZE
$(O)/tests/doubles/cudnn_old.so $(O)/tests/doubles/cudnn_lacks_finalize.so: tests/doubles/cudnn.c libsexp/cuda/api.def
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -fPIC -shared $(WARNINGS) $(DOUBLE) -o $@ $< -lm
$(O)/tests/unit/test_cuda_library: | $(O)/tests/doubles/cudnn_old.so $(O)/tests/doubles/cudnn_lacks_finalize.so
.SECONDARY:

# Each library is found beside the others. $(call cudasim,name of the file,sources,libraries,more objects)
CUDASIM := $(O)/tests/cudasim
CUDASIM_LIBRARIES :=
define cudasim_rule
ifneq (,$(and $(CUDA_INCLUDES),$(2)))
CUDASIM_LIBRARIES += $$(CUDASIM)/$(1)
$$(CUDASIM)/$(1): $$(call objects,$(2)) $(4) tests/cudasim/exports.map $$(if $$(findstring :libcuda,$(3)),$$(CUDASIM)/libcuda.so.1)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -shared -Wl,-soname,$(1) -Wl,-Bsymbolic -Wl,-rpath,'$$$$ORIGIN' \
	  -Wl,--version-script=tests/cudasim/exports.map -o $$@ $$(call objects,$(2)) $(4) -L$$(CUDASIM) $(3)
endif
endef
$(eval $(call cudasim_rule,libcuda.so.1,$(CUDASIM_DRIVER_SOURCES),-ljansson -lm,$(CUDASIM_PTX_OBJECTS)))
$(eval $(call cudasim_rule,libnvrtc.so.13,$(CUDASIM_NVRTC_SOURCES),-ldl))
$(eval $(call cudasim_rule,libcublas.so.13,$(CUDASIM_CUBLAS_SOURCES),-l:libcuda.so.1 -lm))
$(eval $(call cudasim_rule,libcublasLt.so.13,$(CUDASIM_CUBLASLT_SOURCES),-l:libcuda.so.1 -lm -ldl))
$(eval $(call cudasim_rule,libcudnn.so.9,$(CUDASIM_CUDNN_SOURCES),-l:libcuda.so.1 -ljansson -lm -ldl))
$(patsubst %,$(O)/tests/unit/%,$(basename $(notdir $(wildcard tests/unit/test_cuda*.c)))): | $(CUDASIM_LIBRARIES)

dependencies:
	$(Q)sh tests/dependencies.sh $(NEED)

tests: all $(UNIT_TESTS) $(TEST_PROGRAMS) $(REPLAYS) $(if $(findstring thread,$(SANITIZE)),,gpu $(CUDASIM_LIBRARIES))

gpu: $(GPU_PROGRAMS)
	$(Q)ln -sfn $(HASH)/tests $(BUILD)/test

test: NEED := build test
test: dependencies
	$(submake) tests
	$(Q)sh tests/run.sh $(BUILD)

asan: ; $(Q)$(MAKE) --no-print-directory test SANITIZE=address,undefined OPTIMIZE=-O1 BUILD=$(BUILD)/asan QUICK=1
ubsan: ; $(Q)$(MAKE) --no-print-directory test SANITIZE=undefined OPTIMIZE=-O1 BUILD=$(BUILD)/ubsan QUICK=1
tsan: ; $(Q)$(MAKE) --no-print-directory test SANITIZE=thread OPTIMIZE=-O1 BUILD=$(BUILD)/tsan QUICK=small

# The golden digests alone: the same bits from every compiler and optimization level.
golden: NEED := build test
golden: dependencies
	$(submake) all TOOLS=sexpgpu-run $(filter %/test_golden,$(UNIT_TESTS))
	$(Q)sh tests/run.sh $(BUILD) golden

docs: ; $(Q)python3 docs/make-errors.py && python3 docs/make-ir.py

check-math: all $(O)/tests/math/check_math
	$(Q)$(O)/tests/math/check_math $(FUNCTIONS)

# For a machine with a card: builds, runs the device suite and benchmarks, writes one report (docs/gpu/README.md).
gpu-check: ; $(Q)sh tests/gpu/check.sh --build $(BUILD)

bench: NEED := build test bench
bench: dependencies
	$(submake) all gpu $(BENCHES) $(ACCOUNTS)
	$(Q)for b in $(BENCHES); do echo "== $$(basename $$b)"; $$b || exit 1; done
	$(Q)for b in tests/bench/bench_*.py; do echo "== $$(basename $$b .py)"; /usr/bin/python3 $$b $(BUILD) || exit 1; done

# Coverage-guided fuzzing with clang: make fuzz [FUZZ=fuzz_reader] [SECONDS=600]. New findings go to build/fuzz.
FUZZ ?= $(FUZZERS)
SECONDS ?= 60
fuzz: NEED := build fuzz
fuzz: dependencies
	$(Q)sh tests/fuzz/fuzz.sh $(BUILD)/fuzz $(SECONDS) $(FUZZ)
fuzzers: $(patsubst %,$(O)/fuzz/%,$(FUZZERS))
$(O)/fuzz/%: $(O)/tests/fuzz/%.o $(TEST_LINK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $< $(TEST_LINK) $(LIBS_SEXP) $(LIBS_CKPT) $(LIBS_CHOICES) $(LIBS_TEST)

# ---- style ---------------------------------------------------------------------------------------

STYLED := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
format: ; $(Q)clang-format -i $(filter-out %.def,$(STYLED))
tidy: ; $(Q)clang-tidy --quiet $(filter %.c,$(filter-out tests/%,$(STYLED))) -- -std=c17 $(DEFINES) -DSX_LEVEL=scalar

# ---- demo ----------------------------------------------------------------------------------------

demo: NEED := build demo
demo: dependencies
	$(submake) all
	$(Q)sh examples/demo.sh $(BUILD)/bin

# ---- install -------------------------------------------------------------------------------------

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include \
	  $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(patsubst %,$(O)/bin/%,$(TOOLS)) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(LIBSEXP) $(LIBCKPT) $(LIBCHOICES) $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(O)/libsexp.so $(DESTDIR)$(PREFIX)/lib/libsexp.so.0
	install -m 755 $(O)/libckpt.so $(DESTDIR)$(PREFIX)/lib/libckpt.so.0
	install -m 755 $(O)/libchoices.so $(DESTDIR)$(PREFIX)/lib/libchoices.so.0
	ln -sf libsexp.so.0 $(DESTDIR)$(PREFIX)/lib/libsexp.so
	ln -sf libckpt.so.0 $(DESTDIR)$(PREFIX)/lib/libckpt.so
	ln -sf libchoices.so.0 $(DESTDIR)$(PREFIX)/lib/libchoices.so
	install -m 644 $(LIBSEXP_HEADERS) $(LIBCKPT_HEADERS) $(LIBCHOICES_HEADERS) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(MANPAGES) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 tools/common/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sexpgpu-run
	for name in sexpgpu sexpgpu-checkpoint sexpgpu-choices sexpgpu-doctor sexpgpu-evaluate sexpgpu-explain; do install -m 644 tools/$$name/completion.bash \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name || exit 1; done
	for name in sexp ckpt choices; do sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
	  lib$$name/lib$$name.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/lib$$name.pc || exit 1; done

uninstall:
	cd $(DESTDIR)$(PREFIX) && rm -f $(patsubst %,bin/%,$(TOOLS)) lib/libsexp.a lib/libckpt.a lib/libsexp.so* \
	  lib/libckpt.so* lib/libchoices.a lib/libchoices.so* lib/pkgconfig/libsexp.pc lib/pkgconfig/libckpt.pc lib/pkgconfig/libchoices.pc \
	  $(patsubst %,include/%,$(notdir $(LIBSEXP_HEADERS) $(LIBCKPT_HEADERS) $(LIBCHOICES_HEADERS))) $(patsubst %,share/bash-completion/completions/%,$(TOOLS)) \
	  $(patsubst %,share/man/man1/%,$(notdir $(MANPAGES)))

dist: ; git archive --format=tar.gz --prefix=sexpgpu-$(VERSION)/ -o $(BUILD)/sexpgpu-$(VERSION).tar.gz HEAD
clean: ; rm -rf $(BUILD)

help:
	@sed -n '/^#   make/,/^# CUDA=/s/^# *//p' Makefile
	@echo "targets: all demo test gpu gpu-check check-math bench asan ubsan tsan fuzz tidy format install uninstall dist clean"

-include $(shell find $(O) -name '*.d' 2>/dev/null)
