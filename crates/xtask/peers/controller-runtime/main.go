// A manager of controller-runtime with its default options and leader election.
//
// Each Deployment with the label `watch` gets the ConfigMap `NAME-seen`, a condition `Seen` and a finalizer.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "equate.dev/manager"

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, watched := deployment.Labels["watch"]; !watched {
		return ctrl.Result{}, nil
	}
	if !deployment.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&deployment, finalizer) {
			return ctrl.Result{}, r.Update(ctx, &deployment)
		}
		return ctrl.Result{}, nil
	}
	base := deployment.DeepCopy()
	if controllerutil.AddFinalizer(&deployment, finalizer) {
		patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
		if err := r.Patch(ctx, &deployment, patch); err != nil {
			return ctrl.Result{}, err
		}
	}
	name := metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name + "-seen"}
	config := &corev1.ConfigMap{ObjectMeta: name}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"replicas": fmt.Sprint(*deployment.Spec.Replicas)}
		return controllerutil.SetControllerReference(&deployment, config, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	base = deployment.DeepCopy()
	message := fmt.Sprintf("generation %d", deployment.Generation)
	condition := appsv1.DeploymentCondition{
		Type: "Seen", Status: corev1.ConditionTrue, Reason: "Reconciled", Message: message,
	}
	conditions := []appsv1.DeploymentCondition{condition}
	for _, other := range deployment.Status.Conditions {
		if other.Type != condition.Type {
			conditions = append(conditions, other)
		}
	}
	deployment.Status.Conditions = conditions
	return ctrl.Result{}, r.Status().Patch(ctx, &deployment, client.StrategicMergeFrom(base))
}

func run() error {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection:          true,
		LeaderElectionID:        "manager.equate.dev",
		LeaderElectionNamespace: "default",
		// the default port may be taken
		Metrics: metrics.Options{BindAddress: "127.0.0.1:0"},
	})
	if err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{})
	if err := controller.Complete(&reconciler{Client: manager.GetClient()}); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
