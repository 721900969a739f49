// Package helm checks the chart in baton: Helm renders it, and Kubernetes knows each member of each object.
package helm

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// render returns the chart's objects by kind, for values that are written as a file.
func render(values string) (map[string]any, error) {
	chart, err := loader.Load("baton")
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "prod", Namespace: "agents", IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := make(map[string]any)
	for name, text := range files {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
		}
		object := map[string]any{
			"Deployment":              &appsv1.Deployment{},
			"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{},
			"ConfigMap":               &corev1.ConfigMap{},
			"Service":                 &corev1.Service{},
			"Ingress":                 &networkingv1.Ingress{},
			"PodDisruptionBudget":     &policyv1.PodDisruptionBudget{},
		}[head.Kind]
		if object == nil {
			if strings.TrimSpace(text) == "" || strings.HasSuffix(name, ".tpl") {
				continue
			}
			return nil, fmt.Errorf("%s: kind %q", name, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
		}
		objects[head.Kind] = object
	}
	return objects, nil
}

const every = `
imagePullSecrets: [{name: registry}]
config: {agents: [{name: writer, type: llm, model: "openai/gpt-5", key: "${OPENAI_API_KEY}"}]}
env: [{name: LOG, value: info}]
envFrom: [{secretRef: {name: provider-keys}}]
metrics: true
ingress: {enabled: true, className: nginx, host: baton.example.org, tlsSecret: tls, annotations: {a: "1"}}
autoscaling: {enabled: true, queueAge: 5}
podAnnotations: {a: "1"}
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {podAntiAffinity: {}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
`

// Every object is one that Kubernetes takes, with the values of the chart and with all others.
func TestChart_IsValid(t *testing.T) {
	for values, kinds := range map[string][]string{
		"":    {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"},
		every: {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service"},
	} {
		objects, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, kinds) {
			t.Errorf("kinds %v, want %v", got, kinds)
		}
		d := objects["Deployment"].(*appsv1.Deployment)
		pod := d.Spec.Template
		for key, value := range d.Spec.Selector.MatchLabels {
			if pod.Labels[key] != value || objects["Service"].(*corev1.Service).Spec.Selector[key] != value ||
				objects["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels[key] != value {
				t.Errorf("label %s of the pods differs", key)
			}
		}
		if (d.Spec.Replicas == nil) != (values == every) {
			t.Error("both the Deployment and the autoscaler set the number of replicas")
		}
	}
}

// A pod has the time to hand its runs over.
func TestChart_WaitsForTheDrain(t *testing.T) {
	objects, err := render("drain: 100")
	if err != nil {
		t.Fatal(err)
	}
	pod := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec
	pause := pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	if got := *pod.TerminationGracePeriodSeconds; got < 100+pause+10 {
		t.Errorf("%d s for a drain of 100 s after %d s", got, pause)
	}
	found := false
	for _, e := range pod.Containers[0].Env {
		found = found || e.Name == "BATON_TIMEOUTS_DRAIN" && e.Value == "100s"
	}
	if !found {
		t.Error("the server does not know of it")
	}
}

// A pod runs as a user that Kubernetes sees not to be root: a number, in the image, too, for those who run it without the chart.
func TestChart_DoesNotRunAsRoot(t *testing.T) {
	objects, err := render("")
	if err != nil {
		t.Fatal(err)
	}
	who := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec.SecurityContext
	if who.RunAsUser == nil || *who.RunAsUser == 0 {
		t.Error("the user is that of the image")
	}
	image, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nUSER %d:%d\n", *who.RunAsUser, *who.RunAsGroup); !strings.Contains(string(image), want) {
		t.Errorf("the image runs as another user than%s", want)
	}
}

// The server knows which proxies it may believe, and every command in the pod has the settings of the server.
func TestChart_SetsVariables(t *testing.T) {
	objects, err := render("ingress: {enabled: true, proxies: [10.0.0.0/8, 192.168.0.0/16]}")
	if err != nil {
		t.Fatal(err)
	}
	server := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0]
	if !slices.Equal(server.Args, []string{"serve"}) {
		t.Errorf("arguments %q", server.Args)
	}
	for name, want := range map[string]string{
		"BATON_TRUSTED_PROXIES": "10.0.0.0/8,192.168.0.0/16", "BATON_CONFIG": "/etc/baton/baton.yaml", "BATON_INSECURE": "true",
	} {
		if i := slices.IndexFunc(server.Env, func(e corev1.EnvVar) bool { return e.Name == name }); i < 0 || server.Env[i].Value != want {
			t.Errorf("%s is not %s", name, want)
		}
	}
}

// The agents are a map or the text of a file.
func TestChart_HasTheAgents(t *testing.T) {
	for _, values := range []string{"config: {agents: [{name: writer}]}", "config: |\n  agents:\n  - name: writer\n"} {
		objects, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		text := objects["ConfigMap"].(*corev1.ConfigMap).Data["baton.yaml"]
		var file struct{ Agents []struct{ Name string } }
		if err := yaml.Unmarshal([]byte(text), &file); err != nil || len(file.Agents) != 1 || file.Agents[0].Name != "writer" {
			t.Errorf("%v in %q", err, text)
		}
	}
}

// A value that the chart does not know, or of another type, is refused.
func TestChart_RefusesUnknownValues(t *testing.T) {
	for _, values := range []string{"replica: 2", "replicas: two", "drain: 0", "autoscaling: {minimum: 2}", "auth: nobody"} {
		if _, err := render(values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
}
