#include "moderate.h"

#include <math.h>
#include <string.h>

enum { N_IMAGES = 40, SIDE = 6, N_TEXT = 900, N_ROWS = 30 };

static const char experiment[] =
    "(defknob width 8 :doc \"channels\" :min 1 :max 64)\n"
    "(defknob rate 3e-3)\n"
    "(defvariant wide :width 12)\n"
    "(include \"layers.sexp\")\n"
    "\n"
    "(defdata images :source (idx (image \"images\") (label \"labels\")) :order shuffled)\n"
    "(defdata held-out :source (arrays \"held-out\") :records (0.0 0.8))\n"
    "(defdata text :source (windows \"text\" :dtype u8 :length 9 :stride 8 :field tokens) :order shuffled :seed 5)\n"
    "(defdata rows :source (csv \"rows\" :fields ((x [3] f32) (y f32))) :on-end stop)\n"
    "\n"
    "(defun classify (image)\n"
    "  (let ((x (/ (reshape (cast image f32) [(dim image 0) 6 6 1]) 255.0))\n"
    "        (h (max-pool (relu (conv x (param \"c1\" [width 3 3 1] :init (he shape)) :padding 1))))\n"
    "        (h (dropout (reshape h [(dim image 0) (* 9 width)]) :p 0.25)))\n"
    "    (dense h \"head\" (* 9 width) 10)))\n"
    "\n"
    "(defrun images :seed 7 :data images :batch 6 :microbatches 3 :clip 1.0\n"
    "  :loss (cross-entropy (probe \"head/logits\" (classify image)) label)\n"
    "  :metrics ((\"accuracy\" (mean (cast (= (argmax (classify image) :axis -1) label) f32))))\n"
    "  :optimizer (adamw :lr (cosine :peak rate :warmup 3 :total 12))\n"
    "  :checkpoint-every 4 :diagnostics (\"head/*\" \"grad/c1\" \"update/*\") :diagnostics-every 3\n"
    "  :stages ((stage \"first\" :steps 7) (stage \"second\" :steps 4 :batch 5 :microbatches 2)))\n"
    "(defeval held-out :run images :every 4 :data held-out :batch 5\n"
    "  :metrics ((\"loss\" (cross-entropy (classify image) label))\n"
    "            (\"worst\" (reduce-max (classify image)) :reduce max)))\n"
    "\n"
    "(defun block (x i)\n"
    "  (scope \"blocks\" (scope i\n"
    "    (let ((w (lambda (name a b) (param name [a b] :init (normal shape :std 0.1))))\n"
    "          (split (lambda (y) (transpose (reshape y [(dim y 0) 8 2 4]) [0 2 1 3])))\n"
    "          (q (split (matmul x (w \"q\" 8 8)))) (k (split (matmul x (w \"k\" 8 8)))) (v (split (matmul x (w \"v\" "
    "8 8))))\n"
    "          (a (reshape (transpose (attention q k v :causal true) [0 2 1 3]) (shape-of x)))\n"
    "          (x (+ x (probe (path \"attention\" i) (matmul a (w \"o\" 8 8)))))\n"
    "          (n (layer-norm x (param \"g\" [8] :init (ones shape)) (param \"b\" [8] :init (zeros shape)))))\n"
    "      (+ x (matmul (gelu (matmul n (w \"up\" 8 16))) (w \"down\" 16 8)))))))\n"
    "\n"
    "(defrun text :seed 3 :data text :batch 4 :microbatches 5 :steps 6\n"
    "  :loss (let ((ids (cast tokens i32))\n"
    "              (table (param \"table\" [128 8] :init (normal shape :std 0.1)))\n"
    "              (x (fold block (embedding (slice ids 1 0 8) table) (range 2))))\n"
    "          (cross-entropy (matmul x (transpose table [1 0])) (slice ids 1 1 9)))\n"
    "  :optimizer (momentum :lr 0.1 :momentum 0.9) :diagnostics (\"attention/*\") :diagnostics-every 2)\n"
    "\n"
    "(defgenerator made :fields ((x [3] f32) (y [] f32)) :trips 2\n"
    "  :init (normal [4 3] :salt [:step :microbatch])\n"
    "  :trip (lambda (s) (+ (* 0.5 s) (normal [4 3] :salt [:step :microbatch :trip])))\n"
    "  :emit (lambda (s) [s (sum (* s (param \"w\" [3] :init (zeros shape))) :axis 1)]))\n"
    "(defrun made :seed 2 :steps 5 :batch 4 :microbatches 2 :data made\n"
    "  :loss (mse (+ (sum (* x (param \"w\" [3] :init (zeros shape))) :axis 1) 1) (+ y (sum x :axis 1)))\n"
    "  :optimizer (sgd :lr 0.1))\n"
    "(defeval rows :run made :every 2 :data rows :batch 7 :metrics ((\"mean\" (mean (* y (sum x :axis 1))))))\n";

static const char layers[] =
    "(defun dense (x name in out)\n"
    "  (scope name (linear x (param \"w\" [out in] :init (glorot shape)) (param \"b\" [out] :init (zeros shape)))))\n";

static void add_idx(memory_host *host) {
  static unsigned char images[16 + N_IMAGES * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, N_IMAGES,
                                                              0, 0, 0, SIDE, 0, 0, 0, SIDE};
  static unsigned char labels[8 + N_IMAGES] = {0, 0, 9, 1, 0, 0, 0, N_IMAGES};
  uint32_t x = 12345;
  for (size_t i = 16; i < sizeof images; i++) {
    x = x * 1664525u + 1013904223u;
    images[i] = (unsigned char)(x >> 24);
  }
  for (size_t i = 8; i < sizeof labels; i++) labels[i] = (unsigned char)(images[16 + (i - 8) * SIDE * SIDE] % 10);
  memory_host_add(host, "images", images, sizeof images);
  memory_host_add(host, "labels", labels, sizeof labels);
}

static void add_arrays(memory_host *host) {
  static unsigned char images[16 * SIDE * SIDE];
  static int64_t labels[16];
  for (size_t i = 0; i < sizeof images; i++) images[i] = (unsigned char)(i * 31 % 251);
  for (int i = 0; i < 16; i++) labels[i] = i % 10;
  int64_t dims[3] = {16, SIDE, SIDE};
  memory_host_add_tensor(host, "held-out", "image", SEXP_U8, 3, dims, images);
  memory_host_add_tensor(host, "held-out", "label", SEXP_I64, 1, dims, labels);
}

static void add_texts(memory_host *host) {
  static char text[N_TEXT];
  static const char rows[] =
      "x,x2,x3,y\n1,2,3,4\n0.5,-1e-3,7,2\n3,3,3,3\n9,8,7,6\n1,1,2,3\n5,8,13,21\n-1,-2,-3,-4\n0,0,0,1\n2,4,8,16\n1,2,3,"
      "5\n";
  for (int i = 0; i < N_TEXT; i++) text[i] = (char)(' ' + (i * i + i / 7) % 90);
  memory_host_add(host, "text", text, sizeof text);
  memory_host_add_text(host, "rows", rows);
}

void moderate_add(memory_host *host) {
  memory_host_add_text(host, MODERATE_PATH, experiment);
  memory_host_add_text(host, "layers.sexp", layers);
  add_idx(host);
  add_arrays(host);
  add_texts(host);
}
