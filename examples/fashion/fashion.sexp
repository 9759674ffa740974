;; Fashion-MNIST with a small convolutional network: over 85 % of the test images after about a minute.
;; Debian's package dataset-fashion-mnist has the data.

(defknob folder "/usr/share/datasets/fashion-mnist" :doc "where the four files of the data set are")
(defknob lr 2e-3 :doc "peak learning rate" :min 0.0)
(defknob steps 1500 :min 1)

(defdata train
  :source (idx (image (path folder "train-images-idx3-ubyte.gz")) (label (path folder "train-labels-idx1-ubyte.gz")))
  :order shuffled)

(defdata test
  :source (idx (image (path folder "t10k-images-idx3-ubyte.gz")) (label (path folder "t10k-labels-idx1-ubyte.gz")))
  :order sequential)

(defun layer (x name in out)
  "A 3 x 3 convolution, rectified, halved by max pooling: [n h w in] -> [n h/2 w/2 out]."
  (scope name
    (max-pool (relu (+ (conv2d x (param "w" [out 3 3 in] :init (he shape)) :padding 1)
                       (param "b" [out] :init (zeros shape))))
              :window 2 :stride 2)))

(defun classify (image)
  "[n 28 28] of u8 -> [n 10], a score a class."
  (let ((n (dim image 0))
        (x (reshape (/ (cast image f32) 255) [n 28 28 1]))
        (h (layer (layer x "conv1" 1 16) "conv2" 16 32))
        (h (reshape h [n (* 7 7 32)])))
    (scope "out"
      (+ (matmul h (param "w" [(* 7 7 32) 10] :init (glorot shape))) (param "b" [10] :init (zeros shape))))))

(defun accuracy (logits ids)
  (mean (cast (= (argmax logits :axis -1) ids) f32)))

(defrun fashion
  :seed 1 :data train :batch 32 :microbatches 2 :steps steps
  :loss (cross-entropy (classify image) (cast label i32))
  :metrics (("accuracy" (accuracy (classify image) (cast label i32))))
  :optimizer (adam :lr (cosine :peak lr :warmup 50 :total steps))
  :checkpoint-every 500 :checkpoint-keep 2)

(defeval test
  :run fashion :every 500 :data test :batch 500
  :metrics (("loss" (cross-entropy (classify image) (cast label i32)))
            ("accuracy" (accuracy (classify image) (cast label i32)))))
