;; Optimizers: each gives a function of a parameter and its gradient that returns the parameter's new value. :lr is a
;; number or a schedule. Parameters of bf16 and f16 are updated in f32 and rounded; states are f32.

(defun updated-in-f32 (update)
  "An optimizer from a function of p, g and the step, all of f32 but the step."
  (lambda (p g) (cast (update (cast p f32) (cast g f32) (input :step)) (dtype-of p))))

(defun running-average (name g keep)
  "The running average keep * old + (1 - keep) * g, a state that starts at 0."
  (state name (zeros (shape-of g)) (lambda (old) (+ (* keep old) (* (- 1 keep) g)))))

(defun bias-correction (keep step)
  "1 - keep^(step + 1): what a running average that started at 0 has seen."
  (- (expm1 (* (log keep) (+ (cast step f32) 1)))))

(defun shrunk (p lr weight-decay)
  "Decoupled weight decay."
  (if (= weight-decay 0) p (* p (- 1 (* lr weight-decay)))))

(defun with-decay (g p weight-decay)
  "Weight decay as part of the gradient."
  (if (= weight-decay 0) g (+ g (* weight-decay p))))

(defun sgd (&key lr (weight-decay 0))
  "p - lr g; weight-decay times p is added to g."
  (updated-in-f32
    (lambda (p g step) (- p (* (rate-at lr step) (with-decay g p weight-decay))))))

(defun momentum (&key lr (momentum 0.9) (nesterov false) (weight-decay 0))
  "v = momentum v + g; p - lr v, or p - lr (g + momentum v) with :nesterov true."
  (updated-in-f32
    (lambda (p g step)
      (let ((g (with-decay g p weight-decay))
            (v (state "v" (zeros (shape-of p)) (lambda (v) (+ (* momentum v) g)))))
        (- p (* (rate-at lr step) (if nesterov (+ g (* momentum v)) v)))))))

(defun adam-direction (g step beta1 beta2 eps)
  "The bias-corrected average of g over the root of that of its square; eps is outside the root."
  (let ((m (running-average "m" g beta1))
        (v (running-average "v" (* g g) beta2)))
    (/ (/ m (bias-correction beta1 step))
       (+ (sqrt (/ v (bias-correction beta2 step))) eps))))

(defun adam (&key lr (beta1 0.9) (beta2 0.999) (eps 1e-8) (weight-decay 0))
  "Kingma and Ba, 2014; weight-decay times p is added to the gradient."
  (updated-in-f32
    (lambda (p g step)
      (- p (* (rate-at lr step) (adam-direction (with-decay g p weight-decay) step beta1 beta2 eps))))))

(defun adamw (&key lr (beta1 0.9) (beta2 0.999) (eps 1e-8) (weight-decay 0.01) (decays (lambda (path p) true)))
  "Loshchilov and Hutter, 2017: p times 1 - lr weight-decay, then adam. (decays path p) says which parameters decay."
  (updated-in-f32
    (lambda (p g step)
      (let ((lr (rate-at lr step))
            (kept (if (decays (param-path) p) (shrunk p lr weight-decay) p)))
        (- kept (* lr (adam-direction g step beta1 beta2 eps)))))))

(defun lion (&key lr (beta1 0.9) (beta2 0.99) (weight-decay 0))
  "Chen and others, 2023: p decayed, less lr times the sign of beta1 m + (1 - beta1) g, then m = beta2 m + (1 - beta2) g.
The interpolation is written with the new m, of which the old is (m - (1 - beta2) g) / beta2."
  (updated-in-f32
    (lambda (p g step)
      (let ((lr (rate-at lr step))
            (m (running-average "m" g beta2))
            (part (/ beta1 beta2)))
        (- (shrunk p lr weight-decay) (* lr (sign (+ (* part m) (* (- 1 part) g)))))))))

(defun root-mean-square (x)
  (sqrt (mean (* x x))))

(defun square-estimate (g keep)
  "Adafactor's second moment: of a matrix (the last two axes) from the averages of its rows and columns."
  (let ((averaged (lambda (name s)
                    (state name (zeros (shape-of s)) (lambda (old) (+ old (* (- 1 keep) (- s old))))))))
    (if (< (rank g) 2)
        (averaged "v" (* g g))
        (let ((rows (averaged "rows" (mean (* g g) :axis -1 :keep true)))
              (columns (averaged "columns" (mean (* g g) :axis -2 :keep true))))
          (/ (* rows columns) (max (mean rows :axis -2 :keep true) 1.1920929e-07))))))

(defun adafactor (&key (lr 0.01) (decay -0.8) (eps 1e-3) (clip 1) (weight-decay 0))
  "Shazeer and Stern, 2018, as in PyTorch: the step is relative to the size of the parameter (at least eps), clipped to a
root mean square of clip; the second moment of a matrix is kept as rows and columns."
  (updated-in-f32
    (lambda (p g step)
      (let ((t (+ (cast step f32) 1))
            (lr (min (rate-at lr step) (/ 1 (sqrt t))))
            (v (square-estimate g (- 1 (pow t decay))))
            (u (* g (rsqrt (max v 1.4210855e-14))))
            (size (* lr (max eps (root-mean-square p)))))
        (- (shrunk p lr weight-decay) (* (/ size (max 1 (/ (root-mean-square u) clip))) u))))))

(defun orthogonalized (x steps)
  "The nearest matrix of singular values about 1, by the Newton-Schulz iteration of Jordan, 2024."
  (let ((tall (> (dim x 0) (dim x 1)))
        (flat (if tall (transpose x [1 0]) x))
        (start (/ flat (+ (sqrt (sum (* flat flat))) 1e-7)))
        (y (fold (lambda (x i)
                   (let ((a (matmul x (transpose x [1 0])))
                         (b (+ (* -4.7750 a) (* 2.0315 (matmul a a)))))
                     (+ (* 3.4445 x) (matmul b x))))
                 start (range steps))))
    (if tall (transpose y [1 0]) y)))

(defun muon (&key lr other (momentum 0.95) (nesterov true) (weight-decay 0.1) (steps 5)
                  (matrices (lambda (path p) (= (rank p) 2))))
  "Matrices move along their orthogonalized momentum, as in PyTorch; :other is the optimizer of all other parameters.
(matrices path p) says which are which."
  (let ((update (updated-in-f32
                  (lambda (p g step)
                    (let ((lr (rate-at lr step))
                          (m (running-average "m" g momentum))
                          (direction (if nesterov (+ (* momentum m) (* (- 1 momentum) g)) m))
                          (scale (sqrt (max 1 (/ (dim p 0) (dim p 1))))))
                      (- (shrunk p lr weight-decay) (* lr scale (orthogonalized direction steps))))))))
    (lambda (p g) (if (matrices (param-path) p) (update p g) (other p g)))))

(defun clip-norm (x limit)
  "x scaled down to a norm of limit where it is larger; a list of tensors, by their common norm."
  (let ((parts (if (list? x) x [x]))
        (norm (sqrt (fold + 0 (for (part parts) (sum (* part part))))))
        (scale (where (> norm limit) (/ limit norm) 1)))
    (if (list? x) (for (part x) (* part scale)) (* x scale))))
