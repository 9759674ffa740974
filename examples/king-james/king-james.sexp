;; A character transformer on the King James text (Debian's bible-kjv-text; make-text.sh writes it).
;; Pre-norm blocks, causal attention, tied embeddings, AdamW with warmup and cosine decay.

(defknob text "../../build/data/king-james.txt" :doc "the text, one verse a line")
(defknob width 96 :min 8) (defknob heads 4 :min 1) (defknob depth 3 :min 1) (defknob context 64 :min 8)
(defknob steps 600 :min 1) (defknob lr 3e-3 :doc "peak learning rate" :min 0.0)
(defvariant large :width 256 :heads 8 :depth 6 :context 128 :steps 4000 :lr 1e-3)

(defdata train
  :source (windows text :dtype u8 :length (+ context 1) :stride context :field tokens)
  :order shuffled :records (0.0 0.95))
(defdata valid
  :source (windows text :dtype u8 :length (+ context 1) :stride context :field tokens)
  :order sequential :records (0.95 1.0))

(defun dense (x name in out)
  (scope name (+ (matmul x (param "w" [in out] :init (normal shape :std 0.02))) (param "b" [out] :init (zeros shape)))))

(defun norm (x name)
  (scope name (layer-norm x (param "g" [width] :init (ones shape)) (param "b" [width] :init (zeros shape)))))

(defun split-heads (x)
  "[b t width] -> [b heads t width/heads]"
  (transpose (reshape x [(dim x 0) (dim x 1) heads (div width heads)]) [0 2 1 3]))

(defun attend (x)
  (let ((qkv (dense x "qkv" width (* 3 width)))
        (part (lambda (i) (split-heads (slice qkv 2 (* i width) (* (+ i 1) width)))))
        (y (attention (part 0) (part 1) (part 2) :causal true)))
    (dense (reshape (transpose y [0 2 1 3]) (shape-of x)) "projection" width width)))

(defun block (x i)
  (scope "blocks" (scope i
    (let ((x (+ x (attend (norm x "ln1")))))
      (+ x (dense (gelu (dense (norm x "ln2") "up" width (* 4 width)) :approximate "tanh") "down" (* 4 width) width))))))

(defun model (ids)
  "[b t] of i32 -> [b t 128], a score a character."
  (let ((wte (param "wte" [128 width] :init (normal shape :std 0.02)))
        (wpe (param "wpe" [context width] :init (normal shape :std 0.02)))
        (h (fold block (+ (gather wte ids) wpe) (range depth))))
    (matmul (norm h "ln") (transpose wte [1 0]))))

(defun loss-of (tokens)
  (let ((ids (cast tokens i32)))
    (cross-entropy (model (slice ids 1 0 context)) (slice ids 1 1 (+ context 1)))))

(defrun king-james
  :seed 1 :data train :batch 8 :microbatches 2 :steps steps :clip 1.0
  :loss (loss-of tokens)
  :optimizer (adamw :lr (cosine :peak lr :warmup 40 :total steps) :weight-decay 0.1)
  :checkpoint-every 200 :checkpoint-keep 2)

(defeval valid
  :run king-james :every 200 :data valid :batch 32 :batches 16
  :metrics (("loss" (loss-of tokens))))
