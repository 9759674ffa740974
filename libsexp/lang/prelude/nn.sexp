;; Activations, reductions and losses.

(defun in-f32 (x f)
  "(f x) computed in f32 and given in the dtype of x, a float tensor: bf16 and f16 store, they do not compute."
  (if (= (dtype-of x) f32)
      (f x)
      (cast (f (cast x f32)) (dtype-of x))))

(defun float? (x)
  "Whether x is a tensor of a float dtype."
  (or (= (dtype-of x) f32) (= (dtype-of x) bf16) (= (dtype-of x) f16)))

(defun count-along (x axis)
  "How many elements of x a reduction takes together over an axis or a list of axes."
  (fold (lambda (n a) (* n (dim x a))) 1 (if (list? axis) axis [axis])))

(defun mean (x &key (axis (range (rank x))) (keep false))
  "The mean over the axes, all by default: the sum divided by the number of elements."
  (assert (float? x) "mean: x is " (dtype-of x) "; cast it to a float first")
  (in-f32 x (lambda (x) (/ (sum x :axis axis :keep keep) (count-along x axis)))))

(defun var (x &key (axis (range (rank x))) (keep false) (correction 1))
  "The variance over the axes, all by default: the sum of squared distances from the mean, divided by the number of
elements less :correction (1: the unbiased estimate, 0: the population's)."
  (assert (float? x) "var: x is " (dtype-of x) "; cast it to a float first")
  (in-f32 x
    (lambda (x)
      (let ((d (- x (mean x :axis axis :keep true))))
        (/ (sum (* d d) :axis axis :keep keep) (- (count-along x axis) correction))))))

;; The largest along an axis is subtracted before exp, so that nothing overflows. The results do not depend on what is
;; subtracted, so leaving it out of the gradient is exact.

(defun peak-along (x axis)
  (stop-gradient (reduce-max x :axis axis :keep true)))

(defun softmax (x &key (axis -1))
  "exp(x) / sum(exp(x)) along the axis."
  (in-f32 x
    (lambda (x)
      (let ((e (exp (- x (peak-along x axis)))))
        (/ e (sum e :axis axis :keep true))))))

(defun log-softmax (x &key (axis -1))
  "The logarithm of the softmax, exact where that underflows."
  (in-f32 x
    (lambda (x)
      (let ((d (- x (peak-along x axis))))
        (- d (log (sum (exp d) :axis axis :keep true)))))))

(defun logsumexp (x &key (axis (range (rank x))) (keep false))
  "log(sum(exp(x))) over the axes, all by default. Where all elements are -inf it is -inf, with gradient 0."
  (in-f32 x
    (lambda (x)
      (let ((peak (peak-along x axis))
            (base (where (= (abs peak) inf) 0 peak))
            (s (sum (exp (- x base)) :axis axis :keep true))
            (none (= s 0))
            (y (+ base (where none -inf (log (where none 1 s))))))
        (if keep y (sum y :axis axis))))))

(defun sigmoid (x)
  "1 / (1 + exp(-x)), through exp of a number that is not positive."
  (let ((positive (>= x 0))
        (e (exp (where positive (- x) x))))
    (/ (where positive 1 e) (+ 1 e))))

(defun relu (x)
  "The larger of x and 0. Its gradient at 0 is 0; a NaN stays one."
  (where (<= x 0) 0 x))

(defun gelu (x &key (approximate "none"))
  "x times the normal distribution function of x; with :approximate \"tanh\" by its approximation through tanh."
  (cond ((= approximate "none") (* 0.5 x (+ 1 (erf (* x (sqrt 0.5))))))
        ((= approximate "tanh")
         (* 0.5 x (+ 1 (tanh (* (sqrt (/ 2 3.141592653589793)) (+ x (* 0.044715 x x x)))))))
        (else (error "gelu: :approximate is \"none\" or \"tanh\", not " approximate))))

(defun silu (x)
  "x times its sigmoid (swish)."
  (* x (sigmoid x)))

(defun softplus (x &key (beta 1))
  "log(1 + exp(beta x)) / beta."
  (let ((b (* beta x))
        (positive (>= b 0)))
    (/ (+ (where positive b 0) (log1p (exp (where positive (- b) b)))) beta)))

(defun reduced-loss (x reduction)
  "A loss as PyTorch's :reduction asks: its mean, its sum, or \"none\" of them."
  (cond ((= reduction "mean") (mean x))
        ((= reduction "sum") (sum x))
        ((= reduction "none") x)
        (else (error ":reduction is \"mean\", \"sum\" or \"none\", not " reduction))))

(defun cross-entropy (logits ids &key (reduction "mean") (label-smoothing 0))
  "The mean, over all positions, of -log softmax(logits) at the right class: logits [... classes], ids [...] of i32 or
u8. With :label-smoothing s every class has s / classes of the target, the right one 1 - s more."
  (assert (= (append (shape-of ids) [(dim logits -1)]) (shape-of logits))
          "cross-entropy: logits are [... classes] and ids [...], found " (shape-of logits) " and " (shape-of ids))
  (let ((z (cast logits f32))
        (d (- z (peak-along z -1)))
        (all (log (sum (exp d) :axis -1)))
        (ids (if (= (dtype-of ids) u8) (cast ids i32) ids))
        (right (reshape (take-along d (reshape ids (append (shape-of ids) [1])) :axis -1) (shape-of ids)))
        (target (if (= label-smoothing 0)
                    right
                    (+ (* (- 1 label-smoothing) right) (* label-smoothing (mean d :axis -1))))))
    (reduced-loss (- all target) reduction)))

(defun mse (x target &key (reduction "mean"))
  "The mean of the squared differences. The shapes are the same, or one is a number."
  (if (and (tensor? x) (tensor? target))
      (assert (= (shape-of x) (shape-of target)) "mse: shapes differ, " (shape-of x) " and " (shape-of target))
      true)
  (let ((d (- x target)))
    (reduced-loss (* d d) reduction)))
