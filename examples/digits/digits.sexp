;; Handwritten digits of 8 x 8 pixels with a perceptron of one hidden layer.
;; The data lies beside this file; the last fifth is held out.

(defknob hidden 64 :doc "units of the hidden layer" :min 1)
(defknob lr 3e-2 :doc "learning rate" :min 0.0)

(defdata train
  :source (csv "digits.csv.gz" :fields ((pixels [64] f32) (label i32)))
  :order shuffled :records (0.0 0.8))
(defdata held-out
  :source (csv "digits.csv.gz" :fields ((pixels [64] f32) (label i32)))
  :order sequential :records (0.8 1.0))

(defun dense (x name in out)
  (scope name
    (+ (matmul x (param "w" [in out] :init (he shape))) (param "b" [out] :init (zeros shape)))))

(defun classify (pixels)
  "[n 64] of values 0 to 16 -> [n 10], a score a class."
  (dense (relu (dense (/ pixels 16) "fc1" 64 hidden)) "fc2" hidden 10))

(defun accuracy (pixels label)
  (mean (cast (= (argmax (classify pixels) :axis -1) label) f32)))

(defrun digits
  :seed 1 :data train :batch 32 :steps 500
  :loss (cross-entropy (classify pixels) label)
  :metrics (("accuracy" (accuracy pixels label)))
  :optimizer (momentum :lr lr :momentum 0.9)
  :checkpoint-every 250)

(defeval held-out
  :run digits :every 100 :data held-out :batch 64
  :metrics (("loss" (cross-entropy (classify pixels) label))
            ("accuracy" (accuracy pixels label))))
